// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/csi"
	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
	"github.com/grapnel-dev/grapnel/internal/testing/faultproxy"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// installed is an operator with the Plugin of config/components/csi.
type installed struct {
	*world
	client.Client

	dir string
	// kubeconfig is that of the operator. The plugin has another one.
	kubeconfig string
	programs   operator.Programs
	operator   *operator.Operator
}

// install installs the operator in the cluster of a world, with a directory that an operator of another cluster may have
// used before: then both have the same storage location.
func install(w *world, dir string) *installed {
	w.Helper()
	scheme := runtime.NewScheme()
	w.must(v1alpha1.AddToScheme(scheme))
	w.must(corev1.AddToScheme(scheme))
	c, err := client.New(w.plane.Config(), client.Options{Scheme: scheme})
	w.must(err)
	i := &installed{world: w, Client: c, dir: dir, kubeconfig: w.plane.KubeconfigPath()}
	i.programs, err = operator.BuildPrograms(w.Context())
	w.must(err)
	root, err := program.ModuleRoot()
	w.must(err)
	w.must(os.MkdirAll(filepath.Join(i.dir, "plugins"), 0o755))
	w.must(program.Build(w.Context(), filepath.Join(root, "plugins", "csi"), filepath.Join(i.dir, "plugins", "csi")))
	w.must(operator.CreateNamespace(w.Context(), c))
	plugin := &v1alpha1.Plugin{}
	manifest, err := os.ReadFile(filepath.Join(root, "config", "components", "csi", "plugin.yaml"))
	w.must(err)
	w.must(yaml.UnmarshalStrict(manifest, plugin))
	// The operator runs outside of the cluster. A Plugin of an earlier test has the same path.
	kubeconfig := filepath.Join(filepath.Dir(w.plane.KubeconfigPath()), "plugin.kubeconfig")
	w.writeKubeconfig(kubeconfig, w.pluginConfig)
	plugin.Spec.Executor.Process.Env = []v1alpha1.EnvVar{{Name: "KUBECONFIG", Value: kubeconfig}}
	w.must(client.IgnoreAlreadyExists(c.Create(w.Context(), plugin)))
	w.must(client.IgnoreAlreadyExists(c.Create(w.Context(), &v1alpha1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: "default"},
		Spec:       v1alpha1.BackupStorageLocationSpec{Default: true, Filesystem: &v1alpha1.FilesystemLocation{Path: "default"}},
	})))
	i.start()
	w.Cleanup(func() {
		if w.Failed() {
			w.Logf("the operator:\n%s", i.operator.LastLogLines())
		}
		if err := i.operator.Stop(); err != nil {
			w.Error(err)
		}
	})
	return i
}

func (w *world) writeKubeconfig(path string, config *rest.Config) {
	w.Helper()
	w.must(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"only": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"only": {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{"only": {Cluster: "only", AuthInfo: "only"}},
		CurrentContext: "only",
	}, path))
}

func (i *installed) start() {
	i.Helper()
	var err error
	i.operator, err = operator.Start(i.Context(), operator.Options{Programs: i.programs, Kubeconfig: i.kubeconfig, Dir: i.dir})
	i.must(err)
}

// await waits until an object is as wanted.
func await[T client.Object](i *installed, object T, what string, check func(T) bool) T {
	i.Helper()
	i.eventually(what, func() bool {
		i.must(i.Get(i.Context(), client.ObjectKeyFromObject(object), object))
		return check(object)
	})
	return object
}

func phaseIs[T client.Object](phase string) func(T) bool {
	return func(object T) bool {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return false
		}
		status, _ := fields["status"].(map[string]any)
		return status["phase"] == phase
	}
}

// TestOperator backs up, restores and deletes with a real operator, which is killed with its plugin meanwhile.
func TestOperator(t *testing.T) {
	w := newWorld(t)
	first := w.createVolume("first", inGroup(defaultGroupLabel))
	second := w.createVolume("second", inGroup(defaultGroupLabel), func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = nil })
	w.createClaim("unbound", csi.WaitClassName, inGroup(defaultGroupLabel))
	handles := []string{w.handleOfItem(first), w.handleOfItem(second)}
	i := install(w, t.TempDir())
	meta := metav1.ObjectMeta{Namespace: operator.Namespace, Name: "nightly"}

	w.setFaults(driverdir.Faults{NeverReady: true})
	backup := &v1alpha1.Backup{ObjectMeta: meta, Spec: v1alpha1.BackupSpec{IncludedNamespaces: []v1alpha1.NamePattern{v1alpha1.NamePattern(w.namespace)}}}
	w.must(i.Create(t.Context(), backup))
	await(i, backup, "the backup waits for the snapshots", phaseIs[*v1alpha1.Backup]("WaitingForPluginOperations"))
	w.eventually("the driver has both snapshots", func() bool { return w.driverSnapshots(handles...) == 2 })
	w.must(i.operator.Kill())
	w.setFaults(driverdir.Faults{})
	i.start()
	w.eventually("the backup has ended", func() bool {
		w.must(i.Get(t.Context(), client.ObjectKeyFromObject(backup), backup))
		return backup.Status.CompletionTimestamp != nil
	})
	if phase := fmt.Sprint(backup.Status.Phase); phase != "Completed" {
		t.Errorf("the backup is %s: %+v", phase, backup.Status)
	}
	if n := w.driverSnapshots(handles...); n != 2 {
		t.Errorf("the driver has %d snapshots, want one for each claim", n)
	}
	warnings := ""
	for _, problem := range backup.Status.Problems {
		if problem.Reason == "OperationWarning" {
			warnings += problem.Message + "\n"
		}
	}
	wantContains(t, "the warning", warnings, `persistentvolumeclaims of namespace "`+w.namespace+`": the claims with the label `+
		defaultGroupLabel+"=database were captured separately: claim unbound is not bound; their 2 snapshots were taken within ")

	w.must(w.core.CoreV1().Namespaces().Delete(t.Context(), w.namespace, metav1.DeleteOptions{}))
	w.eventually("the namespace no longer exists", func() bool {
		_, err := w.core.CoreV1().Namespaces().Get(t.Context(), w.namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	restore := &v1alpha1.Restore{ObjectMeta: meta, Spec: v1alpha1.RestoreSpec{
		BackupName:       "nightly",
		NamespaceMapping: map[string]v1alpha1.NamespaceName{w.namespace: v1alpha1.NamespaceName(w.namespace + "-restored")},
	}}
	w.must(i.Create(t.Context(), restore))
	w.eventually("the restore has ended", func() bool {
		w.must(i.Get(t.Context(), client.ObjectKeyFromObject(restore), restore))
		return restore.Status.CompletionTimestamp != nil
	})
	for _, name := range []string{"first", "second"} {
		claim := w.awaitBound(w.namespace+"-restored", name)
		if data, err := os.ReadFile(w.dataPath(claim)); err != nil || string(data) != name {
			t.Errorf("the volume of %s has %q, %v", name, data, err)
		}
	}
	w.eventually("nothing is left of the restore", func() bool { return len(w.listOwnSnapshots(w.namespace+"-restored")) == 0 })
	if phase := fmt.Sprint(restore.Status.Phase); phase != "Completed" {
		t.Errorf("the restore is %s: %+v", phase, restore.Status.Problems)
	}

	deletion := &v1alpha1.DeletionRun{ObjectMeta: meta, Spec: v1alpha1.DeletionRunSpec{BackupName: "nightly"}}
	w.must(i.Create(t.Context(), deletion))
	await(i, deletion, "the backup is deleted", phaseIs[*v1alpha1.DeletionRun]("Completed"))
	if n := w.driverSnapshots(handles...); n != 0 {
		t.Errorf("the driver has %d snapshots, want none", n)
	}
}

// TestOperator_Canceled restores a claim whose snapshot was canceled: it gets a new volume, as it would without any
// snapshot.
func TestOperator_Canceled(t *testing.T) {
	w := newWorld(t)
	handle := w.handleOfItem(w.createVolume("data"))
	i := install(w, t.TempDir())
	meta := metav1.ObjectMeta{Namespace: operator.Namespace, Name: "canceled"}

	w.setFaults(driverdir.Faults{NeverReady: true})
	backup := &v1alpha1.Backup{ObjectMeta: meta, Spec: v1alpha1.BackupSpec{IncludedNamespaces: []v1alpha1.NamePattern{v1alpha1.NamePattern(w.namespace)}}}
	w.must(i.Create(t.Context(), backup))
	await(i, backup, "the backup waits for the snapshot", phaseIs[*v1alpha1.Backup]("WaitingForPluginOperations"))
	var operations v1alpha1.AsyncOperationList
	w.must(i.List(t.Context(), &operations, client.MatchingLabels{v1alpha1.LabelParentUID: string(backup.UID)}))
	for o := range operations.Items {
		w.must(i.Patch(t.Context(), &operations.Items[o], client.RawPatch(types.MergePatchType, []byte(`{"spec":{"desiredState":"Cancel"}}`))))
	}
	await(i, backup, "the backup has failed in part", phaseIs[*v1alpha1.Backup]("PartiallyFailed"))
	w.setFaults(driverdir.Faults{})
	if n := w.driverSnapshots(handle); n != 0 {
		t.Errorf("the driver has %d snapshots, want none", n)
	}

	restore := &v1alpha1.Restore{ObjectMeta: meta, Spec: v1alpha1.RestoreSpec{
		BackupName: meta.Name, NamespaceMapping: map[string]v1alpha1.NamespaceName{w.namespace: v1alpha1.NamespaceName(w.namespace + "-empty")},
	}}
	w.must(i.Create(t.Context(), restore))
	await(i, restore, "the restore is complete", phaseIs[*v1alpha1.Restore]("Completed"))
	if _, err := os.Stat(w.dataPath(w.awaitBound(w.namespace+"-empty", "data"))); !os.IsNotExist(err) {
		t.Errorf("the new volume is not empty: %v", err)
	}
	warnings := ""
	for _, problem := range restore.Status.Problems {
		warnings += problem.Message + "\n"
	}
	wantContains(t, "the warnings", warnings, "it gets a new, empty volume")
}

// TestOperator_RestoreInterrupted kills the operator while it creates a restored claim, so that the action is called again:
// the first operation is canceled, and does not fail.
func TestOperator_RestoreInterrupted(t *testing.T) {
	w := newWorld(t)
	w.createVolume("data")
	i := install(w, t.TempDir())
	meta, target := metav1.ObjectMeta{Namespace: operator.Namespace, Name: "interrupted"}, w.namespace+"-again"
	backup := &v1alpha1.Backup{ObjectMeta: meta, Spec: v1alpha1.BackupSpec{IncludedNamespaces: []v1alpha1.NamePattern{v1alpha1.NamePattern(w.namespace)}}}
	w.must(i.Create(t.Context(), backup))
	await(i, backup, "the backup is complete", phaseIs[*v1alpha1.Backup]("Completed"))
	w.must(i.operator.Stop())

	transport, err := rest.TransportFor(w.plane.Config())
	w.must(err)
	proxy := faultproxy.New(t, w.plane.Config().Host, transport)
	i.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	w.writeKubeconfig(i.kubeconfig, &rest.Config{Host: proxy.URL})
	creates := make(chan struct{}, 1)
	proxy.SetFaultInjector(func(r *faultproxy.Request) (fault faultproxy.Fault) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/"+target+"/persistentvolumeclaims") && r.URL.Query().Get("dryRun") == "" {
			fault.Delay = time.Hour
			select {
			case creates <- struct{}{}:
			default:
			}
		}
		return fault
	})
	i.start()
	restore := &v1alpha1.Restore{ObjectMeta: meta, Spec: v1alpha1.RestoreSpec{
		BackupName: meta.Name, NamespaceMapping: map[string]v1alpha1.NamespaceName{w.namespace: v1alpha1.NamespaceName(target)},
	}}
	w.must(i.Create(t.Context(), restore))
	<-creates
	w.must(i.operator.Kill())
	i.start()
	<-creates
	listOperations := func() (phases []string) {
		var operations v1alpha1.AsyncOperationList
		w.must(i.List(t.Context(), &operations, client.MatchingLabels{v1alpha1.LabelParentUID: string(restore.UID)}))
		slices.SortFunc(operations.Items, func(a, b v1alpha1.AsyncOperation) int { return cmp.Compare(a.Spec.Attempt, b.Spec.Attempt) })
		for o := range operations.Items {
			phases = append(phases, fmt.Sprint(operations.Items[o].Status.Phase, " ", operations.Items[o].Status.Message))
		}
		return phases
	}
	w.eventually("the first operation has ended", func() bool {
		phases := listOperations()
		return len(phases) == 2 && (strings.HasPrefix(phases[0], "Cancelled") || strings.HasPrefix(phases[0], "Failed"))
	})
	wantContains(t, "the first operation", listOperations()[0], "Cancelled Canceled after ")
	proxy.SetFaultInjector(nil)
	w.must(i.operator.Kill())
	i.start()
	await(i, restore, "the restore is complete", phaseIs[*v1alpha1.Restore]("Completed"))
	w.wantData(w.awaitBound(target, "data"), "data")
}

// TestOperator_OtherCluster restores the backup of a cluster that no longer exists into another one with the same
// storage, and deletes it there.
func TestOperator_OtherCluster(t *testing.T) {
	otherPlane, otherStack, err := csi.StartCluster(t.Context(), csi.Options{Dir: stack.Dir()}, crds)
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceValue(func() error { return csi.StopCluster(otherPlane, otherStack) })
	t.Cleanup(func() { _ = stop() })
	dir, meta := t.TempDir(), metav1.ObjectMeta{Namespace: operator.Namespace, Name: "moved"}

	from := newWorldIn(t, otherPlane)
	handles := []string{from.handleOfItem(from.createVolume("data"))}
	for _, name := range []string{"a", "b"} {
		handles = append(handles, from.handleOfItem(from.createVolume(name, inGroup(defaultGroupLabel))))
	}
	i := install(from, dir)
	backup := &v1alpha1.Backup{ObjectMeta: meta, Spec: v1alpha1.BackupSpec{IncludedNamespaces: []v1alpha1.NamePattern{v1alpha1.NamePattern(from.namespace)}}}
	from.must(i.Create(t.Context(), backup))
	await(i, backup, "the backup is complete", phaseIs[*v1alpha1.Backup]("Completed"))
	from.must(i.operator.Stop())
	from.must(stop())

	w := newWorld(t)
	i = install(w, dir)
	imported := &v1alpha1.Backup{ObjectMeta: meta}
	w.eventually("the backup is imported", func() bool {
		err := i.Get(t.Context(), client.ObjectKeyFromObject(imported), imported)
		return err == nil && imported.Status.Phase == "Completed"
	})
	restore := &v1alpha1.Restore{ObjectMeta: meta, Spec: v1alpha1.RestoreSpec{
		BackupName: meta.Name, NamespaceMapping: map[string]v1alpha1.NamespaceName{from.namespace: v1alpha1.NamespaceName(from.namespace + "-moved")},
	}}
	w.must(i.Create(t.Context(), restore))
	await(i, restore, "the restore is complete", phaseIs[*v1alpha1.Restore]("Completed"))
	for _, name := range []string{"data", "a", "b"} {
		w.wantData(w.awaitBound(from.namespace+"-moved", name), name)
	}
	deletion := &v1alpha1.DeletionRun{ObjectMeta: meta, Spec: v1alpha1.DeletionRunSpec{BackupName: meta.Name, DestroyForeign: true}}
	w.must(i.Create(t.Context(), deletion))
	await(i, deletion, "the backup is deleted", phaseIs[*v1alpha1.DeletionRun]("Completed"))
	if n := w.driverSnapshots(handles...); n != 0 {
		t.Errorf("the driver has %d snapshots, want none", n)
	}
}
