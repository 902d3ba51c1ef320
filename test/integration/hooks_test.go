// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"path"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Hooks", Label("hooks"), func() {
	It("runs actions in order, and their counterparts in reverse order", Label("oldest"), func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 2)
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(first, second, third, after)
		s.apply(t, b)
		b = outcome(t, b, v1alpha1.RunPhaseCompleted, "in the archive")

		env.CheckEqual(t, "calls", callsOf(t, b), []string{
			"PreBackup " + first + " #1", "PreBackup " + second + " #1", "PreBackup " + third + " #1",
			"PostBackup " + third + " #1", "PostBackup " + second + " #1", "PostBackup " + first + " #1", "PostBackup " + after + " #1",
		})
		env.CheckEqual(t, "PreBackup actions", env.FormatActionStatuses(b.Status.PreBackupActionsStatuses), []string{
			first + " Completed", second + " Completed", third + " Completed",
		})
		env.CheckEqual(t, "PostBackup actions", env.FormatActionStatuses(b.Status.PostBackupActionsStatuses), []string{
			third + " Completed", second + " Completed", first + " Completed", after + " Completed",
		})
		contains(t, s.archived(t, b), configMap(app, "c0"), configMap(app, "c1"))
		awaitEvent(t, b, "Normal PlanRecorded: 3 PreBackup and 4 PostBackup actions are planned")
		awaitEvent(t, b, "Normal Completed: ")

		planned := await(t, b, "the plan is recorded", func(b *v1alpha1.Backup) bool {
			return conditionOf(b, v1alpha1.ConditionPlanned) == "True"
		})
		env.CheckEqual(t, "PostBackup actions when the plan was recorded", env.FormatActionStatuses(planned.Status.PostBackupActionsStatuses),
			[]string{third, second, first, after})
	})

	It("has no action statuses without actions", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		b := outcome(t, s.apply(t, s.NewBackup(world.CreateApp(t, 1))), v1alpha1.RunPhaseCompleted)
		if b.Status.PreBackupActionsStatuses != nil || b.Status.PostBackupActionsStatuses != nil {
			t.Errorf("there are statuses of actions: %s", describe(b))
		}
	})

	Context("ends the run when a Pre action fails", func() {
		for name, c := range suite.SortedByName(map[string]struct {
			action, fault string
			attempts      int
			says          string
		}{
			"it answers that it failed": {preOnly, "error", 1, "the database said no"},
			"it panics":                 {preOnly, "panic", 1, "panic"},
			"its status is unknown":     {preOnly, "status", 1, "status 7, which is not part"},
			"it has no status":          {preOnly, "no-status", 1, "status"},
			"its outputs are too big":   {preOnly, "huge-output", 1, "output"},
			"its answer is too late":    {brief, "late", 1, "deadline"},
			"it is tried again":         {stubborn, "error", 3, "the database said no"},
			"it never ends":             {preExpires, "", 1, "deadline"},
		}) {
			It(name, func() {
				t := suite.Spec(GinkgoTB())
				s := site{world.SharedOperator(t)}
				app := world.CreateApp(t, 1)
				b := s.NewBackup(app)
				if c.fault != "" {
					parameter(b, c.action, "fault", c.fault)
				}
				b.Labels = env.LabelsForActions(c.action, third)
				s.apply(t, b)
				b = outcome(t, b, v1alpha1.RunPhaseFailedPreBackupActions,
					"PreBackup action "+c.action+" failed: ", c.says, "nothing was archived")
				run := runOf(t, b, v1alpha1.HookPreBackup, c.action)
				if int(run.Status.Attempt) != c.attempts || len(run.Status.Attempts) != c.attempts {
					t.Errorf("there were %d attempts, want %d: %s", run.Status.Attempt, c.attempts, describe(run))
				}
				awaitEvent(t, b, "Warning PreBackupActionFailed: ")
				if b.Status.FailureReason == "" || b.Status.Attempts != 0 {
					t.Errorf("the reason is %q after %d attempts at the archive", b.Status.FailureReason, b.Status.Attempts)
				}
				if got := runOf(t, b, v1alpha1.HookPreBackup, third); got.Status.Phase != v1alpha1.HookRunPhaseSkipped {
					t.Errorf("the action after it is %s", got.Status.Phase)
				}
				says(t, []string{s.file(t, b, storage.Logs)}, "Calling the action", c.action)
			})
		}
	})

	It("passes the number of the attempt to the plugin", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Labels = env.LabelsForActions(stubborn)
		parameter(b, stubborn, "fault", "unavailable")
		s.apply(t, b)
		b = outcome(t, b, v1alpha1.RunPhaseFailedPreBackupActions, "the database is unavailable")
		env.CheckEqual(t, "calls", callsOf(t, b), []string{
			"PreBackup " + stubborn + " #1", "PreBackup " + stubborn + " #2", "PreBackup " + stubborn + " #3",
		})
		run := runOf(t, b, v1alpha1.HookPreBackup, stubborn)
		awaitEvent(t, run, "Warning Retrying: Attempt 1 failed and will be retried")
	})

	Context("ignores failures by policy", func() {
		for name, c := range suite.SortedByName(map[string]struct {
			fault   string
			policy  v1alpha1.FailurePolicy
			ignored bool
			says    string
		}{
			"a timeout":                     {"wait", v1alpha1.FailurePolicyIgnore, true, "deadline"},
			"a plugin that dies":            {"exit", v1alpha1.FailurePolicyIgnore, true, "ended with exit code 4 during the call"},
			"no plugin that dies with Fail": {"exit", v1alpha1.FailurePolicyFail, false, "ended with exit code 4 during the call"},
			"no explicit failure":           {"error", v1alpha1.FailurePolicyIgnore, false, "the database said no"},
		}) {
			It(name, func() {
				t := suite.Spec(GinkgoTB())
				s := site{world.SharedOperator(t)}
				app := world.CreateApp(t, 1)
				action := lenient
				if c.fault != "wait" { // Others must not lose their process, and a failure must come in time.
					action = own(t, "lenient")
					install(t, world.NewFaultPlugin(path.Base(action), pre(v1alpha1.PluginAction{
						Name: action, FailurePolicy: c.policy,
					})))
				}
				b := s.NewBackup(app)
				b.Labels = env.LabelsForActions(action)
				parameter(b, action, "fault", c.fault)
				s.apply(t, b)
				if !c.ignored {
					outcome(t, b, v1alpha1.RunPhaseFailedPreBackupActions, c.says)
					return
				}
				b = outcome(t, b, v1alpha1.RunPhaseCompleted, "1 warning")
				env.CheckEqual(t, "PreBackup actions", env.FormatActionStatuses(b.Status.PreBackupActionsStatuses), []string{action + " Completed"})
				status := (*b.Status.PreBackupActionsStatuses)[0]
				if !strings.HasPrefix(status.Message, "ignored: ") || !strings.Contains(status.Message, c.says) {
					t.Errorf("the action says %q", status.Message)
				}
				says(t, messages(s.results(t, b).Warnings), action, "ignored: ")
				awaitEvent(t, runOf(t, b, v1alpha1.HookPreBackup, action), "Warning FailureIgnored: ignored: ")
			})
		}
	})

	Context("runs Post actions by the outcome", func() {
		posts := []string{after, afterCancelled, afterCompleted, afterFailed, afterPartial}
		for name, c := range suite.SortedByName(map[string]struct {
			action string
			stop   bool
			phase  v1alpha1.RunPhase
			run    string
		}{
			"Completed": {phase: v1alpha1.RunPhaseCompleted, run: afterCompleted},
			"Failed":    {action: preFails, phase: v1alpha1.RunPhaseFailedPreBackupActions, run: afterFailed},
			"Cancelled": {action: preHolds, stop: true, phase: v1alpha1.RunPhaseCancelled, run: afterCancelled},
		}) {
			It(name, func() {
				t := suite.Spec(GinkgoTB())
				s := site{world.SharedOperator(t)}
				app := world.CreateApp(t, 1)
				b := s.NewBackup(app)
				b.Labels = env.LabelsForActions(posts...)
				if c.action != "" {
					b.Labels = env.LabelsForActions(append(slices.Clone(posts), c.action)...)
				}
				s.apply(t, b)
				if c.stop {
					awaitCall(t, b, v1alpha1.HookPreBackup, c.action)
					cancelBackup(t, b)
				}
				b = outcome(t, b, c.phase)
				for _, action := range posts {
					want := v1alpha1.HookRunPhaseSkipped
					if action == after || action == c.run {
						want = v1alpha1.HookRunPhaseCompleted
					}
					if run := runOf(t, b, v1alpha1.HookPostBackup, action); run.Status.Phase != want {
						t.Errorf("%s is %s, want %s", action, run.Status.Phase, want)
					}
				}
			})
		}
	})
})
