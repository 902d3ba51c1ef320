// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// failingOnce is an action whose first attempt fails. The others do what next does.
func failingOnce(next execute) *actions {
	return &actions{do: func(ctx context.Context, call executor.Call) (executor.Answer, error) {
		if call.Attempt == 1 {
			return executor.Answer{}, executor.NewError(executor.Failed, call, "the server is down", nil)
		}
		return next(ctx, call)
	}}
}

func succeed(context.Context, executor.Call) (executor.Answer, error) {
	return executor.Answer{Message: "reported"}, nil
}

// request requests to retry or skip a HookRun, as the user jane.
func request(env *suite.Env, run *v1alpha1.HookRun, id string, what v1alpha1.HookInterventionType) {
	suite.UpdateWithRetry(env, run, func(run *v1alpha1.HookRun) {
		run.Spec.Intervention = &v1alpha1.HookIntervention{ID: id, Type: what, User: "jane", Reason: "the server is repaired"}
	})
}

// waitForHandled waits until a request is handled with an outcome, and updates run.
func waitForHandled(env *suite.Env, run *v1alpha1.HookRun, id string, outcome v1alpha1.HookInterventionOutcome) {
	suite.WaitFor(env, run, func(run *v1alpha1.HookRun) string {
		if last := run.Status.LastIntervention; last == nil || last.ID != id || last.Outcome != outcome {
			return fmt.Sprintf("the last intervention is %+v, want %s of %s", last, outcome, id)
		}
		return ""
	})
}

func waitForCall(t testing.TB, do *actions, n int) {
	t.Helper()
	suite.Eventually(t, func() string {
		if made := do.made(); len(made) < n {
			return fmt.Sprintf("the calls are %v, want %d", made, n)
		}
		return ""
	})
}

func postBackup(run *v1alpha1.HookRun) { run.Spec.Hook = v1alpha1.HookPostBackup }

var _ = Describe("An intervention", Label("hooks"), func() {
	const by = "by jane: the server is repaired"

	It("opens a failed Post action again, which its parent has released", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		backup := createBackup(env)
		run := plan(env, backup, postBackup)
		do := failingOnce(succeed)
		operator(t, env, do)
		waitForPhase(env, run, v1alpha1.HookRunPhaseFailed)
		suite.UpdateWithRetry(env, run, func(run *v1alpha1.HookRun) { controllerutil.RemoveFinalizer(run, v1alpha1.FinalizerHookRun) })

		request(env, run, "1", v1alpha1.HookInterventionRetry)
		waitForPhase(env, run, v1alpha1.HookRunPhaseCompleted)
		if !controllerutil.ContainsFinalizer(run, v1alpha1.FinalizerHookRun) {
			t.Error("it was called without its finalizer")
		}
		env.WaitForEvent(run, "Normal RetriedByUser: Retried "+by)
		env.WaitForEvent(backup, "Normal RetriedByUser: PostBackup action example.io/freeze: Retried "+by)
		env.WaitForEvent(run, "Normal Completed: reported")

		request(env, run, "2", v1alpha1.HookInterventionRetry)
		waitForHandled(env, run, "2", v1alpha1.HookInterventionRefused)
		env.WaitForEvent(backup, "Warning InterventionRefused: PostBackup action example.io/freeze: Retry refused: it is Completed")
		waitForPhase(env, run, v1alpha1.HookRunPhaseCompleted)
		if diff := cmp.Diff([]int32{1, 2}, do.made()); diff != "" {
			t.Errorf("the attempts of the calls (-want +got):\n%s", diff)
		}
	})

	It("is not repeated by the next operator", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		run := plan(env, createBackup(env), postBackup)
		first := failingOnce(hanging().do)
		stop, _ := operator(t, env, first)
		waitForPhase(env, run, v1alpha1.HookRunPhaseFailed)
		request(env, run, "1", v1alpha1.HookInterventionRetry)
		waitForCall(t, first, 2)
		stop()

		second := failingOnce(succeed)
		stop, _ = operator(t, env, second)
		waitForPhase(env, run, v1alpha1.HookRunPhaseCompleted)
		stop()
		third := working()
		operator(t, env, third)
		request(env, run, "2", v1alpha1.HookInterventionSkip)
		waitForHandled(env, run, "2", v1alpha1.HookInterventionRefused)
		for operator, tc := range map[*actions][]int32{first: {1, 2}, second: {3}, third: nil} {
			if diff := cmp.Diff(tc, operator.made()); diff != "" {
				t.Errorf("the attempts of the calls (-want +got):\n%s", diff)
			}
		}
	})

	It("skips an action while it runs", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		backup := createBackup(env)
		run := plan(env, backup, owed, postBackup)
		do := hanging()
		operator(t, env, do)
		waitForCall(t, do, 1)
		request(env, run, "1", v1alpha1.HookInterventionRetry)
		waitForHandled(env, run, "1", v1alpha1.HookInterventionRefused)
		env.WaitForEvent(run, "Warning InterventionRefused: Retry refused: it is running")
		request(env, run, "2", v1alpha1.HookInterventionSkip)
		waitForPhase(env, run, v1alpha1.HookRunPhaseSkipped)
		env.WaitForEvent(run, "Warning SkippedByUser: Skipped "+by)
		env.WaitForEvent(backup, "Warning SkippedByUser: PostBackup action example.io/freeze: Skipped "+by)
		if diff := cmp.Diff([]int32{1}, do.made()); diff != "" {
			t.Errorf("the attempts of the calls (-want +got):\n%s", diff)
		}
	})

	It("is refused for a failed Pre action", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		run := plan(env, createBackup(env))
		do := failingOnce(succeed)
		operator(t, env, do)
		waitForPhase(env, run, v1alpha1.HookRunPhaseFailed)
		request(env, run, "1", v1alpha1.HookInterventionRetry)
		waitForHandled(env, run, "1", v1alpha1.HookInterventionRefused)
		waitForPhase(env, run, v1alpha1.HookRunPhaseFailed)
		if diff := cmp.Diff([]int32{1}, do.made()); diff != "" {
			t.Errorf("the attempts of the calls (-want +got):\n%s", diff)
		}
	})
})
