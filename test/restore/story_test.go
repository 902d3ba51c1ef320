// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

func cancelRestore(t testing.TB, r *v1alpha1.Restore) {
	t.Helper()
	world.Patch(t, r, `{"spec":{"desiredState":"Cancel"}}`)
}

// backUp backs a namespace up, with some changes to what newBackup returns.
func (s site) backUp(t testing.TB, app string, change ...func(*v1alpha1.Backup)) *v1alpha1.Backup {
	t.Helper()
	b := s.NewBackup(app)
	for _, f := range change {
		f(b)
	}
	b = env.WaitFor(t, world.Client, env.Create(t, world.Client, b), "it has ended", func(b *v1alpha1.Backup) bool { return lifecycle.IsFinalized(b) })
	if b.Status.Phase != v1alpha1.RunPhaseCompleted {
		t.Fatalf("the Backup ended %s: %s", b.Status.Phase, b.Status.Message)
	}
	return b
}

// restoreOf returns a Restore of an app into a new namespace, and that namespace. It
// asks for no action.
func (s site) restoreOf(backup, app string) (r *v1alpha1.Restore, target string) {
	target = "to-" + strings.ToLower(rand.Text()[:12])
	r = &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "story-"}}
	r.Spec.BackupName = backup
	r.Spec.NamespaceMapping = map[string]v1alpha1.NamespaceName{app: v1alpha1.NamespaceName(target)}
	return r, target
}

// outcome waits until a Restore has ended and owes nothing, and checks its phase, and
// that its message has some texts.
func outcome(t testing.TB, r *v1alpha1.Restore, phase v1alpha1.RunPhase, texts ...string) *v1alpha1.Restore {
	t.Helper()
	r = env.WaitFor(t, world.Client, r, "it has ended and owes nothing", func(r *v1alpha1.Restore) bool {
		return lifecycle.IsFinalized(r) && len(r.Finalizers) == 0 && r.Status.ObservedGeneration == r.Generation
	})
	if r.Status.Phase != phase {
		t.Fatalf("the phase is %s, want %s: %s", r.Status.Phase, phase, r.Status.Message)
	}
	for _, text := range texts {
		if !strings.Contains(r.Status.Message, text) {
			t.Errorf("the message does not say %q: %s", text, r.Status.Message)
		}
	}
	checkPaid(t, r)
	return r
}

// checkPaid checks that every pair that was started has been undone, unless a person
// had its other half skipped, and that nothing holds a HookRun.
func checkPaid(t testing.TB, r *v1alpha1.Restore) {
	t.Helper()
	started, undone := map[string]bool{}, map[string]bool{}
	for _, run := range runsOf(t, r) {
		if run.Status.CompletionTimestamp == nil || len(run.Finalizers) > 0 || run.Status.ObservedGeneration != run.Generation {
			t.Errorf("HookRun %s is left over in phase %s with the finalizers %q", run.Name, run.Status.Phase, run.Finalizers)
		}
		if run.Spec.Hook == v1alpha1.HookPreRestore {
			started[run.Spec.ActionName] = run.Status.StartTimestamp != nil
		} else {
			undone[run.Spec.ActionName] = run.Status.Phase == v1alpha1.HookRunPhaseCompleted
		}
	}
	for action := range started {
		if done, planned := undone[action]; started[action] && planned && !done {
			t.Errorf("PreRestore action %s of Restore %s is not undone", action, r.Name)
		}
	}
}

// restored returns the ConfigMaps of a namespace, as "name=value".
func restored(t testing.TB, namespace string) []string {
	t.Helper()
	var list corev1.ConfigMapList
	Expect(world.Client.List(t.Context(), &list, client.InNamespace(namespace))).To(Succeed())
	var texts []string
	for _, c := range list.Items { // sorted by name
		texts = append(texts, c.Name+"="+c.Data["n"])
	}
	return texts
}

// untouched checks that nothing was written to a namespace that did not exist.
func untouched(t testing.TB, namespace string) {
	t.Helper()
	if world.Exists(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}) || len(restored(t, namespace)) > 0 {
		t.Errorf("something was written to namespace %s: %q", namespace, restored(t, namespace))
	}
}

// results returns the results file of a Restore, and checks that kubectl shows its problems.
func (s site) results(t testing.TB, r *v1alpha1.Restore) string {
	t.Helper()
	text := s.stored(t, r.Status.Files.Results)
	var found results.Results
	Expect(json.Unmarshal([]byte(text), &found)).To(Succeed())
	world.CheckProblemsDescribed(t, "restores.grapnel.dev", r, found)
	return text
}

// stored reads a file of a Restore, which holds compressed text, by its key.
func (s site) stored(t testing.TB, key string) string {
	t.Helper()
	file, err := os.Open(filepath.Join(s.LocationDir(env.DefaultLocation), key))
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = file.Close() }()
	reader, err := gzip.NewReader(file)
	Expect(err).NotTo(HaveOccurred())
	text, err := io.ReadAll(reader)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// parameter sets a parameter of an action.
func parameter(action, key, value string) map[string]v1alpha1.ParameterSet {
	return map[string]v1alpha1.ParameterSet{action: {key: v1alpha1.ParameterValue(value)}}
}

func reasonOf(object conditions.Object, name string) string {
	if c := conditions.Get(object, name); c != nil {
		return c.Reason
	}
	return ""
}

// says checks that a text has another.
func says(t testing.TB, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%q is not in\n%s", part, text)
	}
}
