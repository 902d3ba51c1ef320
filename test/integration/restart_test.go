// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"path"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Backups and restarts", Label("hooks"), func() {
	It("continues after a crash at any stage", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t)}
		app := world.CreateApp(t, 3)
		undisturbed := s.NewBackup(app)
		undisturbed.Labels = env.LabelsForActions(freeze)
		undisturbed = outcome(t, s.apply(t, undisturbed), v1alpha1.RunPhaseCompleted)
		want := s.archived(t, undisturbed)

		for name, c := range map[string]struct {
			slow, bucket bool
			await        func(testing.TB, *v1alpha1.Backup, *bucket)
			pre, post    int32
			archives     int32
		}{
			"in a PreBackup action": {
				slow: true, await: func(t testing.TB, b *v1alpha1.Backup, _ *bucket) {
					t.Helper()
					awaitCall(t, b, v1alpha1.HookPreBackup, freeze)
				}, pre: 2, post: 1, archives: 1,
			},
			"in a PostBackup action": {
				slow: true, await: func(t testing.TB, b *v1alpha1.Backup, _ *bucket) {
					t.Helper()
					awaitCall(t, b, v1alpha1.HookPostBackup, freeze)
				}, pre: 1, post: 2, archives: 1,
			},
			"while it archives": {
				bucket: true, await: func(t testing.TB, _ *v1alpha1.Backup, store *bucket) {
					t.Helper()
					store.awaitHeld(t)
				}, pre: 1, post: 1, archives: 2,
			},
		} {
			By(name, func() {
				b := s.NewBackup(app)
				b.Labels = env.LabelsForActions(freeze)
				if c.slow {
					parameter(b, freeze, "sleep", "2s")
				}
				var store *bucket
				if c.bucket {
					store = newBucket(t, s)
					store.hold.Store(true)
					b.Spec.StorageLocation = store.location
				}
				s.apply(t, b)
				c.await(t, b, store)
				Expect(s.Operator.Kill()).To(Succeed())
				if store != nil {
					store.release()
				}
				s.RestartOperator(t)
				b = outcome(t, b, v1alpha1.RunPhaseCompleted)
				for point, attempts := range map[v1alpha1.HookPoint]int32{
					v1alpha1.HookPreBackup: c.pre, v1alpha1.HookPostBackup: c.post,
				} {
					run := runOf(t, b, point, freeze)
					if run.Status.Attempt != attempts {
						t.Errorf("%s has %d attempts, want %d: %s", point, run.Status.Attempt, attempts, describe(run))
					}
					if attempts > 1 && run.Status.Attempts[0].Reason != v1alpha1.ReasonInterrupted {
						t.Errorf("the first attempt of %s ended with %q", point, run.Status.Attempts[0].Reason)
					}
				}
				if b.Status.Attempts != c.archives {
					t.Errorf("the archive was begun %d times, want %d", b.Status.Attempts, c.archives)
				}
				sameObjects(t, s.archived(t, b), want)
			})
		}
		By("in an action that must not be repeated", func() {
			action := own(t, "once")
			install(t, world.NewFaultPlugin(path.Base(action),
				both(v1alpha1.PluginAction{Name: action, OnInterruption: v1alpha1.InterruptionPolicyFail}), "FAULT_CALL=PreBackup=wait"))
			b := s.NewBackup(app)
			b.Labels = env.LabelsForActions(action)
			s.apply(t, b)
			awaitCall(t, b, v1alpha1.HookPreBackup, action)
			Expect(s.Operator.Kill()).To(Succeed())
			s.RestartOperator(t)
			b = outcome(t, b, v1alpha1.RunPhaseFailedPreBackupActions, "the operator stopped while the action was running")
			awaitPhase(t, b, v1alpha1.HookPostBackup, action, v1alpha1.HookRunPhaseCompleted)
		})
	})
})

// sameObjects compares archives.
func sameObjects(t testing.TB, got, want map[string]string) {
	t.Helper()
	for path, content := range want {
		if got[path] != content {
			t.Errorf("%s is %q, want %q", path, got[path], content)
		}
	}
	if len(got) != len(want) {
		t.Errorf("there are %d files in the archive, want %d", len(got), len(want))
	}
}
