// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// deletionOf returns a DeletionRun for a Backup, which is not created.
func deletionOf(b *v1alpha1.Backup) *v1alpha1.DeletionRun {
	return &v1alpha1.DeletionRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, GenerateName: "story-"},
		Spec:       v1alpha1.DeletionRunSpec{BackupName: b.Name},
	}
}

// destroy creates a DeletionRun for a Backup.
func destroy(t testing.TB, b *v1alpha1.Backup) *v1alpha1.DeletionRun {
	t.Helper()
	return env.Create(t, world.Client, deletionOf(b))
}

// destroyed waits for the end of a DeletionRun and checks its phase, and that its message
// contains some texts.
func destroyed(t testing.TB, d *v1alpha1.DeletionRun, phase v1alpha1.RunPhase, texts ...string) *v1alpha1.DeletionRun {
	t.Helper()
	d = await(t, d, "it has ended", func(d *v1alpha1.DeletionRun) bool {
		return d.Status.CompletionTimestamp != nil && len(d.Finalizers) == 0 && d.Status.ObservedGeneration == d.Generation
	})
	if d.Status.Phase != phase {
		t.Fatalf("the phase is %s, want %s: %s", d.Status.Phase, phase, d.Status.Message)
	}
	says(t, []string{d.Status.Message}, texts...)
	return d
}

// awaiting waits until a DeletionRun says what it waits for.
func awaiting(t testing.TB, d *v1alpha1.DeletionRun, reason string) *v1alpha1.DeletionRun {
	t.Helper()
	return await(t, d, "it is "+reason, func(d *v1alpha1.DeletionRun) bool {
		return reasonOf(d, v1alpha1.ConditionSucceeded) == reason
	})
}

// stored returns the files of a backup in the default location.
func (s site) stored(t testing.TB, name string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.LocationDir(env.DefaultLocation), "backups", name, "*"))
	Expect(err).NotTo(HaveOccurred())
	return files
}

// gone checks that nothing is left of a Backup.
func (s site) gone(t testing.TB, b *v1alpha1.Backup) {
	t.Helper()
	awaitGone(t, b)
	if files := s.stored(t, b.Name); len(files) > 0 {
		t.Errorf("files are left: %q", files)
	}
}

var _ = Describe("The deletion of backups", Label("deletion"), func() {
	It("deletes the data, the objects and what plugins created", Label("oldest"), func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		b := outcome(t, env.Create(t, world.Client, s.NewBackup(world.CreateApp(t, 3))), v1alpha1.RunPhaseCompleted)
		if len(s.stored(t, b.Name)) == 0 {
			t.Fatal("nothing is stored")
		}
		d := destroyed(t, destroy(t, b), v1alpha1.RunPhaseCompleted, "Backup "+b.Name+" is destroyed")
		s.gone(t, b)
		awaitEvent(t, d, "Normal Completed: Backup "+b.Name+" is destroyed")
		// A change after the end is observed, and the outcome stays.
		world.Patch(t, d, `{"spec":{"ttl":"1h"}}`)
		destroyed(t, d, v1alpha1.RunPhaseCompleted, "Backup "+b.Name+" is destroyed")
		world.Patch(t, d, `{"spec":{"ttl":"1s"}}`)
		awaitGone(t, d)
	})

	It("does the work once", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		action := own(t, "once")
		install(t, world.NewFaultPlugin(filepath.Base(action), []v1alpha1.PluginAction{deletes(v1alpha1.PluginAction{Name: action})}))
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Labels = env.LabelsForActions(action)
		parameter(b, action, "sleep", "500ms")
		b = outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
		var runs []*v1alpha1.DeletionRun
		for range 3 {
			runs = append(runs, destroy(t, b))
		}
		calls, others := 0, 0
		for _, d := range runs {
			d = destroyed(t, d, v1alpha1.RunPhaseCompleted)
			calls += len(deleteCalls(t, d))
			if strings.Contains(d.Status.Message, "destroyed the backup") || strings.Contains(d.Status.Message, "does not exist anymore") {
				others++
			}
		}
		if calls != 1 || others != 2 {
			t.Errorf("%d calls, and %d took over what another did", calls, others)
		}
		s.gone(t, b)
	})

	It("cancels a running Backup first", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Labels = env.LabelsForActions(preHolds)
		env.Create(t, world.Client, b)
		awaitCall(t, b, v1alpha1.HookPreBackup, preHolds)
		d := destroy(t, b)
		destroyed(t, d, v1alpha1.RunPhaseCompleted)
		s.gone(t, b)
		if last := latest(b); last.Status.Phase != v1alpha1.RunPhaseCancelled || reasonOf(last, v1alpha1.ConditionCleanupOwed) != v1alpha1.ReasonCleanupDone {
			t.Errorf("it was not cancelled, or its clean-up was not done: %s", describe(b))
		}
	})

	Context("follows the deletion policy of a deleted Backup", func() {
		It("Delete", func() {
			t := suite.Spec(GinkgoTB())
			s := site{world.SharedOperator(t)}
			app := world.CreateApp(t, 1)
			b := s.NewBackup(app)
			b.Spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete
			env.Create(t, world.Client, b)
			await(t, b, "it has ended", func(b *v1alpha1.Backup) bool {
				return b.Status.Phase == v1alpha1.RunPhaseCompleted && slices.Contains(b.Finalizers, v1alpha1.FinalizerStoredData)
			})
			world.Delete(t, b)
			s.gone(t, b)
		})
		It("Retain", func() {
			t := suite.Spec(GinkgoTB())
			s := site{world.SharedOperator(t)}
			app := world.CreateApp(t, 1)
			b := outcome(t, env.Create(t, world.Client, s.NewBackup(app)), v1alpha1.RunPhaseCompleted)
			files := s.stored(t, b.Name)
			world.Delete(t, b)
			awaitGone(t, b)
			env.CheckEqual(t, "the files", s.stored(t, b.Name), files)
		})
		It("Delete and then Retain", func() {
			t := suite.Spec(GinkgoTB())
			s := site{world.SharedOperator(t)}
			app := world.CreateApp(t, 1)
			b := s.NewBackup(app)
			b.Spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete
			env.Create(t, world.Client, b)
			await(t, b, "it has ended", func(b *v1alpha1.Backup) bool {
				return b.Status.Phase == v1alpha1.RunPhaseCompleted && slices.Contains(b.Finalizers, v1alpha1.FinalizerStoredData)
			})
			world.Patch(t, b, `{"spec":{"deletionPolicy":"Retain"}}`)
			await(t, b, "nothing holds it", func(b *v1alpha1.Backup) bool { return len(b.Finalizers) == 0 && b.Status.CompletionTimestamp != nil })
			world.Delete(t, b)
			awaitGone(t, b)
			if len(s.stored(t, b.Name)) == 0 {
				t.Error("the files are gone")
			}
		})
	})

	// Nothing that destroys the data can be created any more, and the namespace must not hang.
	It("does not block the deletion of a namespace", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t)}
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete
		env.Create(t, world.Client, b)
		await(t, b, "it has ended", func(b *v1alpha1.Backup) bool {
			return b.Status.Phase == v1alpha1.RunPhaseCompleted && slices.Contains(b.Finalizers, v1alpha1.FinalizerStoredData)
		})
		world.Delete(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Name}})
		awaitGone(t, b)
		if len(s.stored(t, b.Name)) == 0 {
			t.Error("the files are gone")
		}
		s.WaitForMetric(t, "grapnel_data_left_behind_total", 1)
	})

	It("reports invalid names, and backups that no longer exist", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		run := func(spec v1alpha1.DeletionRunSpec) *v1alpha1.DeletionRun {
			return &v1alpha1.DeletionRun{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "story-"}, Spec: spec}
		}
		for name, tc := range map[string]struct {
			spec  v1alpha1.DeletionRunSpec
			phase v1alpha1.RunPhase
			texts []string
		}{
			"a typing error": {
				v1alpha1.DeletionRunSpec{BackupName: "nightyl"},
				v1alpha1.RunPhaseFailedValidation,
				[]string{"there is no Backup nightyl", "fix spec.backupName"},
			},
			"no such location": {
				v1alpha1.DeletionRunSpec{BackupName: "b", StorageLocation: "nowhere"},
				v1alpha1.RunPhaseFailedValidation,
				[]string{"nowhere", "does not exist"},
			},
			"another has the name": {
				v1alpha1.DeletionRunSpec{BackupName: "b", BackupUID: "1-2-3"}, v1alpha1.RunPhaseCompleted, []string{"does not exist anymore"},
			},
		} {
			By(name, func() {
				destroyed(t, env.Create(t, world.Client, run(tc.spec)), tc.phase, tc.texts...)
			})
		}
	})
})

// held installs an action of a kind that runs for what asks for it, and does not come back
// before release is called.
func held(t testing.TB, kind v1alpha1.ActionKind) (action string, release func()) {
	t.Helper()
	action = own(t, "held")
	file := filepath.Join(t.TempDir(), "go-on")
	install(t, world.NewFaultPlugin(filepath.Base(action),
		[]v1alpha1.PluginAction{{Name: action, Kind: kind, Selector: env.SelectorForAction(action)}}, "FAULT_CALL=until:"+file))
	release = func() { touch(t, file) }
	t.Cleanup(release)
	return action, release
}

func touch(t testing.TB, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Error(err)
	}
}

// awaitCalled waits until an action was called for a Restore or DeletionRun.
func awaitCalled(t testing.TB, subject client.Object, action string) {
	t.Helper()
	eventually(t, func() string {
		for _, run := range all[*v1alpha1.HookRun](world.watched) {
			if run.Spec.ParentRef.UID == string(subject.GetUID()) && run.Spec.ActionName == action && run.Status.StartTimestamp != nil {
				return ""
			}
		}
		return action + " was not called\n" + describe(subject)
	})
}

// deletionsOf returns the DeletionRuns that the operator created for a Backup.
func deletionsOf(b *v1alpha1.Backup) []*v1alpha1.DeletionRun {
	return slices.DeleteFunc(all[*v1alpha1.DeletionRun](world.watched), func(d *v1alpha1.DeletionRun) bool {
		return d.Spec.BackupUID != string(b.UID)
	})
}
