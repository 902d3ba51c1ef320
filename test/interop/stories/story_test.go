// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/test/interop/plugins"
	"github.com/grapnel-dev/grapnel/test/interop/plugins/actions"
)

// selected is the label of the objects that the Backups ask for.
const selected = "selected"

// TestBackupAndRestore: objects are changed on their way out and back in, a Secret that
// was not selected is included, one object is left out, and those with which an action
// fails or panics are the only ones that are missing.
func TestBackupAndRestore(t *testing.T) {
	// One after the other: the programs provide the same actions.
	for _, release := range plugins.Releases() {
		t.Run(release, func(t *testing.T) {
			s := world.SharedOperator(t)
			defer install(t, release)()
			app := newApp(t)
			b := s.NewBackup(app)
			b.Labels = map[string]string{"team": "shop"}
			b.Spec.IncludedResources = []v1alpha1.NamePattern{"configmaps", "secrets"}
			b.Spec.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{selected: "yes"}}
			b = env.WaitFor(t, world.Client, env.Create(t, world.Client, b), "it has ended", func(b *v1alpha1.Backup) bool { return lifecycle.IsFinalized(b) })
			if b.Status.Phase != v1alpha1.RunPhasePartiallyFailed || !strings.Contains(b.Status.Message, "2 errors") {
				t.Errorf("the Backup ended %s: %s %q", b.Status.Phase, b.Status.Message, b.Status.ValidationErrors)
			}
			checkLog(t, s, b)
			target := app + "-again"
			r := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "story-"}}
			r.Spec.BackupName = b.Name
			r.Spec.NamespaceMapping = map[string]v1alpha1.NamespaceName{app: v1alpha1.NamespaceName(target)}
			r = env.WaitFor(t, world.Client, env.Create(t, world.Client, r), "it has ended", func(r *v1alpha1.Restore) bool { return lifecycle.IsFinalized(r) })
			if r.Status.Phase != v1alpha1.RunPhaseCompleted {
				t.Errorf("the Restore ended %s: %s %q", r.Status.Phase, r.Status.Message, r.Status.ValidationErrors)
			}
			checkObjects(t, target)
			checkStamps(t, target, b, r)
		})
	}
}

// install makes a Plugin and returns what removes it, and with it its process.
func install(t *testing.T, release string) (remove func()) {
	t.Helper()
	plugin := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "velero"}}
	plugin.Spec.Executor.Process = &v1alpha1.ProcessExecutor{Command: release}
	world.WaitForPlugins(t, env.Create(t, world.Client, plugin))
	return func() {
		world.Delete(t, plugin)
		world.WaitForDeletion(t, plugin)
	}
}

// newApp makes ConfigMaps that say what is to be done with them, and a Secret.
func newApp(t *testing.T) string {
	t.Helper()
	app := world.CreateNamespace(t, "app-")
	for name, annotations := range map[string]map[string]string{
		"changed":   nil,
		"unchanged": {actions.AnnotationDo: actions.DoNothing},
		"logging":   {actions.AnnotationDo: actions.DoLog},
		"adding":    {actions.AnnotationAdd: "/secrets/" + app + "/token"},
		"skipped":   {actions.AnnotationDo: actions.DoSkip},
		"failing":   {actions.AnnotationDo: actions.DoFail},
		"panicking": {actions.AnnotationDo: actions.DoPanic},
	} {
		env.Create(t, world.Client, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: app, Name: name, Labels: map[string]string{selected: "yes"}, Annotations: annotations,
		}})
	}
	env.Create(t, world.Client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: "token"}})
	env.Create(t, world.Client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: "other"}})
	return app
}

// checkLog checks the messages of the actions in the log of the Backup.
func checkLog(t *testing.T, s *env.Namespace, b *v1alpha1.Backup) {
	t.Helper()
	file, err := os.Open(filepath.Join(s.LocationDir(env.DefaultLocation), "backups", b.Name, b.Name+"-logs.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a line for users", "a line about an error", "freezing the volume: the volume is busy", "plugin panicked: the plugin has a bug"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the log of the Backup does not say %q:\n%s", want, text)
		}
	}
}

// checkObjects compares what is in the namespace after the restore.
func checkObjects(t *testing.T, namespace string) {
	t.Helper()
	var configMaps corev1.ConfigMapList
	var secrets corev1.SecretList
	for _, list := range []client.ObjectList{&configMaps, &secrets} {
		if err := world.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for _, c := range configMaps.Items { // sorted by name
		names = append(names, c.Name)
	}
	for _, s := range secrets.Items {
		names = append(names, s.Name)
	}
	env.CheckEqual(t, "objects", names, []string{"adding", "changed", "logging", "unchanged", "token"})
}

// checkStamps checks what each action got about its run, by what it wrote.
func checkStamps(t *testing.T, namespace string, b *v1alpha1.Backup, r *v1alpha1.Restore) {
	t.Helper()
	var changed corev1.ConfigMap
	if err := world.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "changed"}, &changed); err != nil {
		t.Fatal(err)
	}
	ofBackup := []string{
		fmt.Sprintf("backup=%s/%s uid=%s ", b.Namespace, b.Name, b.UID), "team:shop",
		"location=" + b.Status.StorageLocation + " ", "phase=InProgress",
	}
	ofRestore := []string{fmt.Sprintf("restore=%s/%s uid=%s ", r.Namespace, r.Name, r.UID), "backup=" + b.Name + " ", "phase=InProgress"}
	for name, want := range map[string][]string{
		"backup-v1": append([]string{"v1 "}, ofBackup...), "backup-v2": append([]string{"v2 "}, ofBackup...),
		"restore-v1": append([]string{"v1 "}, ofRestore...), "restore-v2": append([]string{"v2 "}, ofRestore...),
	} {
		stamp := changed.Annotations[actions.StampPrefix+name]
		for _, part := range want {
			if !strings.Contains(stamp, part) {
				t.Errorf("%s was not told %q: %q", name, part, stamp)
			}
		}
	}
	if stamp := changed.Annotations[actions.StampPrefix+"backup-both"]; stamp != "" {
		t.Errorf("an action saw an object that it does not want: %s", stamp)
	}
}
