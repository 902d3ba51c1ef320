// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

// archiveAction is a pair of actions before and after a restore.
const archiveAction = "archives.example.io/stop"

// newArchiveSite starts an operator with archiveAction.
func newArchiveSite(t testing.TB, flags ...string) *env.Namespace {
	t.Helper()
	var actions []v1alpha1.PluginAction
	for _, kind := range []v1alpha1.ActionKind{v1alpha1.ActionKindPreRestore, v1alpha1.ActionKindPostRestore} {
		actions = append(actions, v1alpha1.PluginAction{Name: archiveAction, Kind: kind, Selector: env.SelectorForAction(archiveAction)})
	}
	plugin := world.NewFaultPlugin("archives-"+strings.ToLower(rand.Text()[:8]), actions)
	s := world.StartOperator(t, flags...)
	plugin = env.Create(t, world.Client, plugin)
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(world.Client.Delete(ctx, plugin)); err != nil {
			t.Error(err)
		}
	})
	world.WaitForPlugins(t, plugin)
	return s
}

// newStoredBackup returns a Backup of an app that has ended, and the directory of its files.
func newStoredBackup(t testing.TB, s *env.Namespace, b *v1alpha1.Backup) (made *v1alpha1.Backup, dir string) {
	t.Helper()
	made = env.WaitFor(t, world.Client, env.Create(t, world.Client, b), "it has ended", func(b *v1alpha1.Backup) bool { return lifecycle.IsFinalized(b) })
	return made, filepath.Join(s.LocationDir(env.DefaultLocation), "backups", made.Name)
}

// newRestore creates a Restore of an app into a namespace that does not exist, with
// archiveAction, and returns it when it has ended.
func newRestore(t testing.TB, s *env.Namespace, backup, app string, annotations map[string]string) (r *v1alpha1.Restore, target string) {
	t.Helper()
	target = "to-" + strings.ToLower(rand.Text()[:12])
	r = &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Name, GenerateName: "archive-", Labels: env.LabelsForActions(archiveAction), Annotations: annotations,
	}}
	r.Spec.BackupName = backup
	r.Spec.NamespaceMapping = map[string]v1alpha1.NamespaceName{app: v1alpha1.NamespaceName(target)}
	r = env.WaitFor(t, world.Client, env.Create(t, world.Client, r), "it has ended", func(r *v1alpha1.Restore) bool { return lifecycle.IsFinalized(r) })
	return r, target
}

// expectNothingHappened asserts that a Restore called no action, owes nothing and wrote
// nothing.
func expectNothingHappened(t testing.TB, s *env.Namespace, r *v1alpha1.Restore, target string) {
	t.Helper()
	var runs v1alpha1.HookRunList
	Expect(world.Client.List(t.Context(), &runs, client.InNamespace(s.Name), client.MatchingLabels{v1alpha1.LabelParentUID: string(r.UID)})).To(Succeed())
	for i := range runs.Items {
		hookRun := &runs.Items[i]
		Expect(hookRun.Status.StartTimestamp).To(BeNil(), "HookRun %s was started", hookRun.Name)
		Expect(hookRun.Status.Phase).To(Equal(v1alpha1.HookRunPhaseSkipped))
	}
	calls := world.FaultPluginCalls(t, func(key string) bool { return isKeyOf(runs.Items, key) })
	Expect(calls).To(BeEmpty())
	Expect(conditions.Get(r, v1alpha1.ConditionCleanupOwed)).To(BeNil())
	Expect(world.Exists(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: target}})).To(BeFalse(), "namespace %s was restored", target)
	Eventually(func() []string { return openScratchFiles(t, s) }).Should(BeEmpty())
}

// isKeyOf reports whether a call was made for one of those HookRuns.
func isKeyOf(runs []v1alpha1.HookRun, key string) bool {
	for i := range runs {
		if strings.Contains(key, string(runs[i].UID)) {
			return true
		}
	}
	return false
}

// openScratchFiles returns the files without a name that the operator has in its scratch
// directory.
func openScratchFiles(t testing.TB, s *env.Namespace) []string {
	t.Helper()
	descriptors, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.Operator.PID()))
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, descriptor := range descriptors {
		if path, err := os.Readlink(descriptor); err == nil && strings.HasPrefix(path, filepath.Join(s.Dir, "scratch")) {
			open = append(open, path)
		}
	}
	return open
}

// change rewrites a stored file; nil removes it.
func change(t testing.TB, file string, edit func(content []byte) []byte) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if content = edit(content); content == nil {
		err = os.Remove(file)
	} else {
		err = os.WriteFile(file, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

var _ = Describe("A damaged archive", func() {
	DescribeTable("calls no PreRestore action", func(edit func(content []byte) []byte, texts ...string) {
		t := GinkgoTB()
		s := newArchiveSite(t)
		app := world.CreateApp(t, 2)
		b, dir := newStoredBackup(t, s, s.NewBackup(app))
		Expect(b.Status.Phase).To(Equal(v1alpha1.RunPhaseCompleted))
		file := filepath.Join(dir, b.Name+".tar.gz")
		good, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		change(t, file, edit)

		r, target := newRestore(t, s, b.Name, app, nil)
		Expect(r.Status.Phase).To(Equal(v1alpha1.RunPhaseFailed), r.Status.Message)
		for _, text := range append(texts, "nothing was restored") {
			Expect(r.Status.Message).To(ContainSubstring(text))
		}
		expectNothingHappened(t, s, r, target)

		Expect(os.WriteFile(file, good, 0o600)).To(Succeed())
		r, _ = newRestore(t, s, b.Name, app, nil)
		Expect(r.Status.Phase).To(Equal(v1alpha1.RunPhaseCompleted), r.Status.Message)
		Expect(env.FormatActionStatuses(r.Status.PreRestoreActionsStatuses)).To(Equal([]string{archiveAction + " Completed"}))
		Eventually(func() []string { return openScratchFiles(t, s) }).Should(BeEmpty())
	},
		Entry("that is truncated", func(content []byte) []byte { return content[:len(content)/2] }, "bytes of", "restore the file"),
		Entry("that was tampered with", func(content []byte) []byte {
			content[len(content)/2] ^= 1
			return content
		}, "restore again"),
		Entry("with data after its end", func(content []byte) []byte { return append(content, "more"...) }, "it has more than"),
		Entry("that is missing", func([]byte) []byte { return nil }, "is missing: restore it from a copy"),
	)
})

var _ = Describe("An archive that does not fit into the scratch directory", func() {
	It("calls no PreRestore action and says what to do", func() {
		t := GinkgoTB()
		s := newArchiveSite(t, "--max-scratch-size=100Ki")
		app := world.CreateApp(t, 1)
		env.Create(t, world.Client, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: "large"}, Data: map[string]string{"n": strings.Repeat("large ", 50_000)},
		})
		b, _ := newStoredBackup(t, s, s.NewBackup(app))
		r, target := newRestore(t, s, b.Name, app, nil)
		Expect(r.Status.Phase).To(Equal(v1alpha1.RunPhaseFailed), r.Status.Message)
		Expect(r.Status.Message).To(ContainSubstring("free space in the directory given by --scratch-dir"))
		expectNothingHappened(t, s, r, target)

		small := world.CreateApp(t, 1)
		b, _ = newStoredBackup(t, s, s.NewBackup(small))
		r, _ = newRestore(t, s, b.Name, small, nil)
		Expect(r.Status.Phase).To(Equal(v1alpha1.RunPhaseCompleted), r.Status.Message)
	})
})

var _ = Describe("A backup of Grapnel without its manifest", func() {
	It("is restored only if a person allows it", func() {
		t := GinkgoTB()
		s := newArchiveSite(t)
		app := world.CreateApp(t, 1)
		b, dir := newStoredBackup(t, s, s.NewBackup(app))
		change(t, filepath.Join(dir, b.Name+"-grapnel.json"), func([]byte) []byte { return nil })

		r, target := newRestore(t, s, b.Name, app, nil)
		Expect(r.Status.Phase).To(Equal(v1alpha1.RunPhaseFailedValidation), r.Status.Message)
		Expect(r.Status.Message).To(And(
			ContainSubstring(b.Name+"-grapnel.json is missing"), ContainSubstring("restore that file from a copy"),
			ContainSubstring(v1alpha1.AnnotationAllowUnverified+"=true"),
		))
		expectNothingHappened(t, s, r, target)

		r, target = newRestore(t, s, b.Name, app, map[string]string{v1alpha1.AnnotationAllowUnverified: "true"})
		Expect(r.Status.Phase).To(Equal(v1alpha1.RunPhaseCompleted), r.Status.Message)
		Expect(r.Status.Warnings).To(BeEquivalentTo(1))
		Expect(world.Exists(t, env.NewConfigMap(target, 0))).To(BeTrue())
	})

	It("is damaged in another cluster, too", func() {
		t := GinkgoTB()
		s := newArchiveSite(t)
		app := world.CreateApp(t, 1)
		b, dir := newStoredBackup(t, s, s.NewBackup(app))
		world.Delete(t, b)
		world.WaitForDeletion(t, b)
		change(t, filepath.Join(dir, b.Name+"-grapnel.json"), func([]byte) []byte { return nil })
		r, target := newRestore(t, s, b.Name, app, nil)
		Expect(r.Status.Phase).To(Equal(v1alpha1.RunPhaseFailedValidation), r.Status.Message)
		expectNothingHappened(t, s, r, target)
	})
})

var _ = Describe("An object that no archive may hold", func() {
	It("is an error of that object, and the rest is restored", func() {
		t := GinkgoTB()
		s := newArchiveSite(t)
		app := world.CreateApp(t, 1)
		// A tenant may name a Role so: nothing limits names of RBAC but the path of a request.
		env.Create(t, world.Client, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: strings.Repeat("r", 1100)}})
		b := s.NewBackup(app)
		b.Spec.IncludedResources = append(b.Spec.IncludedResources, "roles")
		b, _ = newStoredBackup(t, s, b)
		Expect(b.Status.Phase).To(Equal(v1alpha1.RunPhasePartiallyFailed), b.Status.Message)
		Expect(b.Status.Errors).To(BeEquivalentTo(1))
		r, target := newRestore(t, s, b.Name, app, nil)
		Expect(r.Status.Phase).To(Equal(v1alpha1.RunPhaseCompleted), r.Status.Message)
		Expect(world.Exists(t, env.NewConfigMap(target, 0))).To(BeTrue())
	})
})
