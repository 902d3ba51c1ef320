// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("The hooks of a Restore", Label("restore"), func() {
	It("runs actions in order, with the outputs of the backup", Label("oldest"), func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 2)
		b := s.backUp(t, app, func(b *v1alpha1.Backup) {
			b.Labels, b.Spec.Parameters = env.LabelsForActions(first), parameter(first, "fault", "outputs")
		})
		r, target := s.restoreOf(b.Name, app)
		r.Labels, r.Spec.Parameters = env.LabelsForActions(first, second), parameter(first, "fault", "outputs")
		r = outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseCompleted, "3 created")

		env.CheckEqual(t, "calls", callsOf(t, r, "story"), []string{
			"PreRestore " + first + " #1", "PreRestore " + second + " #1",
			"PostRestore " + second + " #1", "PostRestore " + first + " #1",
		})
		env.CheckEqual(t, "PreRestore actions", env.FormatActionStatuses(r.Status.PreRestoreActionsStatuses), []string{first + " Completed", second + " Completed"})
		env.CheckEqual(t, "PostRestore actions", env.FormatActionStatuses(r.Status.PostRestoreActionsStatuses), []string{second + " Completed", first + " Completed"})
		env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0", "c1=1"})
		env.CheckEqual(t, "namespaces that actions may reach", r.Status.BackupNamespaces, []string{app})

		log := s.stored(t, r.Status.Files.PostLog)
		says(t, log, "Calling the action")
		says(t, log, second)
		if strings.Contains(log, "Restoring objects") {
			t.Errorf("the log of the PostRestore actions has lines of the restore:\n%s", log)
		}

		ended := func(run v1alpha1.HookRun) bool { return run.Status.CompletionTimestamp != nil }
		kept := string(runOf(t, b, v1alpha1.HookPreBackup, first, ended).UID)
		if got := string(r.Status.BackupOutputs[first]["from"]); got != kept {
			t.Errorf("the Restore knows the output %q of the backup, want %q", got, kept)
		}
		pre := runOf(t, r, v1alpha1.HookPreRestore, first, ended)
		post := runOf(t, r, v1alpha1.HookPostRestore, first, ended)
		for _, run := range []v1alpha1.HookRun{pre, post} {
			if got := run.Status.Outputs; string(got["backup-pre"]) != kept || string(got["backup"]) != b.Name {
				t.Errorf("%s was told %v, want %q of %s", run.Spec.Hook, got, kept, b.Name)
			}
		}
		if got := string(post.Status.Outputs["pre"]); got != string(pre.UID) {
			t.Errorf("the PostRestore action was told that the PreRestore action put out %q, want %q", got, pre.UID)
		}
	})

	It("restores nothing when a Pre action fails", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		b := s.backUp(t, app)
		for name, actions := range map[string][]string{
			"the only one":                {fails},
			"with one that had succeeded": {fails, first},
		} {
			By(name, func() {
				r, target := s.restoreOf(b.Name, app)
				r.Labels = env.LabelsForActions(actions...)
				r = outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseFailedPreRestoreActions,
					"PreRestore action "+fails+" failed: ", "the database said no", "nothing was restored")
				untouched(t, target)
				env.CheckEqual(t, "calls", callsOf(t, r, "fails"), []string{"PreRestore " + fails + " #1", "PostRestore " + fails + " #1"})
				if r.Status.FailureReason == "" || r.Status.Attempts != 0 {
					t.Errorf("the reason is %q after %d attempts at the objects", r.Status.FailureReason, r.Status.Attempts)
				}
				says(t, s.results(t, r), "the database said no")
				says(t, s.stored(t, r.Status.Files.Log), "Calling the action")
			})
		}
	})

	It("skips actions by annotation", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		b := s.backUp(t, app)
		for name, c := range map[string]struct {
			key  string
			want []string
		}{
			// What was not started owes nothing.
			"prerestore": {first + ".prerestore", []string{"PreRestore " + second + " #1", "PostRestore " + second + " #1"}},
			"postrestore": {second + ".postrestore", []string{
				"PreRestore " + first + " #1", "PreRestore " + second + " #1", "PostRestore " + first + " #1",
			}},
		} {
			By(name, func() {
				r, _ := s.restoreOf(b.Name, app)
				r.Labels = env.LabelsForActions(first, second)
				r.Annotations = map[string]string{c.key: v1alpha1.SkipValue}
				r = outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseCompleted)
				env.CheckEqual(t, "calls", callsOf(t, r, "story"), c.want)
				says(t, conditions.Get(r, v1alpha1.ConditionPlanned).Message, "is skipped: ")
			})
		}
		By("with another value", func() {
			r, target := s.restoreOf(b.Name, app)
			r.Labels = env.LabelsForActions(first)
			r.Annotations = map[string]string{first + ".prerestore": "yes"}
			outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseFailedValidation, first+".prerestore", "skip")
			untouched(t, target)
		})
	})
})
