// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
)

const (
	hooksPage     = "docs/guides/hooks.md"
	hookNamespace = operator.Namespace
)

// hookWorld is an API server with the policies of an installation, and an operator.
type hookWorld struct {
	plane  *controlplane.ControlPlane
	client client.Client
	dir    string
	// documented is the Backup of the document, which is kept from running until its turn.
	documented *v1alpha1.Backup
}

func newHookWorld(t *testing.T) *hookWorld {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	plane, err := controlplane.Start(t.Context(), controlplane.Options{CRDPaths: []string{"../config/crd/bases"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme := k8sruntime.NewScheme()
	for _, add := range []func(*k8sruntime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &hookWorld{plane: plane, dir: t.TempDir()}
	if w.client, err = client.New(plane.Config(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", plane.KubeconfigPath())
	run(t, true, plane.KubectlPath(), "apply", "-f", "../config/base/namespace.yaml")
	run(t, true, plane.KubectlPath(), "apply", "-k", "../config/policy")
	run(t, true, plane.KubectlPath(), "create", "namespace", "shop")
	return w
}

// applyExamples applies the samples and the document, as a user does who copies them.
func (w *hookWorld) applyExamples(t *testing.T) {
	t.Helper()
	manifests := pluginSamples(t)
	for _, block := range blocks(documents(t)[hooksPage], "yaml") {
		manifests[block] = block
	}
	for _, manifest := range manifests {
		file := write(t, t.TempDir(), "manifest.yaml", manifest)
		if said := run(t, true, w.plane.KubectlPath(), "apply", "--validate=strict", "-f", file); strings.Contains(said, "Warning") {
			t.Error(said)
		}
	}
	var backups v1alpha1.BackupList
	if err := w.client.List(t.Context(), &backups); err != nil || len(backups.Items) != 1 {
		t.Fatalf("there are %d Backups in %s, want 1 (%v)", len(backups.Items), hooksPage, err)
	}
	b := &backups.Items[0]
	w.documented = &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Name, Labels: b.Labels}, Spec: b.Spec}
	if err := w.client.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// startOperator starts the operator, with a location.
func (w *hookWorld) startOperator(t *testing.T) {
	t.Helper()
	programs, err := operator.BuildPrograms(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	op, err := operator.Start(t.Context(), operator.Options{
		Programs: operator.Programs{Operator: programs.Operator}, Kubeconfig: w.plane.KubeconfigPath(), Dir: w.dir,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the operator's log:\n%s", op.LastLogLines())
		}
		if err := op.Stop(); err != nil {
			t.Error(err)
		}
	})
	env.Create(t, w.client, &v1alpha1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: hookNamespace, Name: "main"},
		Spec:       v1alpha1.BackupStorageLocationSpec{Default: true, Filesystem: &v1alpha1.FilesystemLocation{Path: "main"}},
	})
}

// awaitLoaded waits until it was tried to load a Plugin as it is now.
func (w *hookWorld) awaitLoaded(t *testing.T, name string, well bool) *v1alpha1.Plugin {
	t.Helper()
	plugin := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return env.WaitFor(t, w.client, plugin, "it was loaded, or not, as it should", func(p *v1alpha1.Plugin) bool {
		ready := conditions.Get(p, v1alpha1.ConditionReady)
		tried := ready != nil && ready.ObservedGeneration == p.Generation && (well || conditions.IsTrue(p, v1alpha1.ConditionStalled))
		return tried && (ready.Status == metav1.ConditionTrue) == well
	})
}

// change changes the executor of a Plugin, and waits until it is loaded.
func (w *hookWorld) change(t *testing.T, name string, change func(*v1alpha1.Executor)) {
	t.Helper()
	var plugin v1alpha1.Plugin
	if err := w.client.Get(t.Context(), types.NamespacedName{Name: name}, &plugin); err != nil {
		t.Fatal(err)
	}
	before := plugin.DeepCopy()
	change(&plugin.Spec.Executor)
	if err := w.client.Patch(t.Context(), &plugin, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	w.awaitLoaded(t, name, true)
}

// backup returns a Backup of the shop for which the actions run that wait for a label.
func (w *hookWorld) backup(name, label string) *v1alpha1.Backup {
	b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: hookNamespace, Name: name, Labels: map[string]string{label: "yes"}}}
	b.Spec.IncludedNamespaces = []v1alpha1.NamePattern{"shop"}
	return b
}

// run creates a Backup, and waits until it and everything after it has ended.
func (w *hookWorld) run(t *testing.T, b *v1alpha1.Backup, phase v1alpha1.RunPhase) {
	t.Helper()
	env.Create(t, w.client, b)
	w.awaitDone(t, b, phase)
}

func (w *hookWorld) awaitDone(t *testing.T, b *v1alpha1.Backup, phase v1alpha1.RunPhase) {
	t.Helper()
	env.WaitFor(t, w.client, b, "it is "+string(phase)+", and nothing is left to do", func(b *v1alpha1.Backup) bool {
		reconciling := conditions.Get(b, v1alpha1.ConditionReconciling)
		return b.Status.Phase == phase && reconciling != nil && reconciling.Status == metav1.ConditionFalse
	})
}

// hookRun returns the run of an action.
func (w *hookWorld) hookRun(t *testing.T, subject types.UID, point v1alpha1.HookPoint, action string) v1alpha1.HookRun {
	t.Helper()
	var runs v1alpha1.HookRunList
	if err := w.client.List(t.Context(), &runs, client.InNamespace(hookNamespace)); err != nil {
		t.Fatal(err)
	}
	for _, run := range runs.Items {
		if run.Spec.ParentRef.UID == string(subject) && run.Spec.Hook == point && run.Spec.ActionName == action {
			return run
		}
	}
	t.Fatalf("there is no %s run of %s", point, action)
	return v1alpha1.HookRun{}
}

// archived returns how many replicas a Deployment of the shop has in an archive.
func (w *hookWorld) archived(t *testing.T, backup, name string) int32 {
	t.Helper()
	file, err := os.Open(filepath.Join(w.dir, "store", "main", "backups", backup, backup+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	zipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(zipped); ; {
		entry, err := archive.Next()
		if errors.Is(err, io.EOF) {
			t.Fatalf("%s is not in the archive", name)
		} else if err != nil {
			t.Fatal(err)
		}
		if entry.Name != "resources/deployments.apps/namespaces/shop/"+name+".json" {
			continue
		}
		var d appsv1.Deployment
		if err := json.NewDecoder(archive).Decode(&d); err != nil {
			t.Fatal(err)
		}
		return *d.Spec.Replicas
	}
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: "registry.example.com/" + name + ":v1"}}},
			},
		},
	}
}

// pluginSamples returns the samples of Plugins of all executors but process, by path.
func pluginSamples(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../config/samples/plugin_*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	samples := map[string]string{}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		samples[path] = string(content)
	}
	return samples
}

// objectsOf returns the objects of a manifest.
func objectsOf(t *testing.T, manifest string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, manifest)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// codeBelow returns all code in directories, without that of tests.
func codeBelow(t *testing.T, directories ...string) string {
	t.Helper()
	var code strings.Builder
	for _, directory := range directories {
		err := filepath.WalkDir(directory, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			code.Write(content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return code.String()
}
