// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/hookrun"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// goingOn is an action that goes on without the operator and is ended into a channel.
func goingOn(do *actions) *actions {
	do.resumes, do.stopped = true, make(chan executor.Call, 9)
	return do
}

// begun starts an operator, has it call the action of a run, and ends it.
func begun(t *testing.T, env *suite.Env) {
	t.Helper()
	first := goingOn(hanging())
	stop, _ := operator(t, env, first)
	suite.Eventually(t, func() string {
		if len(first.made()) == 0 {
			return "the action was not called"
		}
		return ""
	})
	stop()
	if len(first.stopped) > 0 {
		t.Fatal("what goes on was ended with the operator")
	}
}

// TestAnswerIsKeptUntilItIsRecorded has an operator end that got an answer and cannot record it.
func TestAnswerIsKeptUntilItIsRecorded(t *testing.T) {
	t.Parallel()
	env := cluster.NewEnv(t)
	run := plan(env, subject(env), failOnInterruption)
	first := goingOn(working())
	var tried atomic.Int32
	stop, _ := operator(t, env, first, func(r *hookrun.Reconciler) {
		r.Client = watched{Client: r.Client, before: func(_ context.Context, obj client.Object) error {
			if obj.(*v1alpha1.HookRun).Status.CompletionTimestamp == nil {
				return nil
			}
			tried.Add(1)
			return errors.New("the API server is away")
		}}
	})
	suite.Eventually(t, func() string {
		if tried.Load() < 2 {
			return "it was not tried to record the answer"
		}
		return ""
	})
	stop()
	if len(first.stopped) > 0 {
		t.Error("what answered was removed before the answer was recorded")
	}
	second := goingOn(working())
	operator(t, env, second)
	awaitRemoved(env, run)
	if diff := cmp.Diff([]int32{1}, second.made()); diff != "" || run.Status.Phase != v1alpha1.HookRunPhaseCompleted {
		t.Errorf("the run is %s; calls of the second operator (-want +got):\n%s", run.Status.Phase, diff)
	}
	if n := len(second.stopped); n != 1 {
		t.Errorf("what answered was removed %d times, want once", n)
	}
}

// TestRemovedByTheNextOperator has an operator end as it removes what answered.
func TestRemovedByTheNextOperator(t *testing.T) {
	t.Parallel()
	env := cluster.NewEnv(t)
	backup := subject(env)
	run := plan(env, backup)
	first := goingOn(working())
	first.stuck = true
	stop, _ := operator(t, env, first)
	suite.Eventually(t, func() string {
		if len(first.stopped) == 0 {
			return "what answered is not removed"
		}
		return ""
	})
	if call := <-first.stopped; call.Key != string(run.UID) || call.Attempt != 1 {
		t.Errorf("removed was %+v", call)
	}
	stop()
	// Nobody lets go of the run before that is done.
	env.Delete(backup)
	env.Delete(run)
	if !suite.GetIfExists(env, run) || run.Status.Phase != v1alpha1.HookRunPhaseCompleted || !run.Status.Removing ||
		!controllerutil.ContainsFinalizer(run, v1alpha1.FinalizerHookRun) {
		t.Fatalf("the operator that stopped left %+v", run.Status)
	}
	second := goingOn(working())
	operator(t, env, second)
	env.WaitForDeletion(run)
	if len(second.made()) > 0 || len(second.stopped) != 1 {
		t.Errorf("%d calls were made and %d removed, want none and 1", len(second.made()), len(second.stopped))
	}
}

// TestNothingToRemove is about actions that end with the operator: nothing more is written.
func TestNothingToRemove(t *testing.T) {
	t.Parallel()
	env := cluster.NewEnv(t)
	run := plan(env, subject(env))
	var writes atomic.Int32
	operator(t, env, working(), func(r *hookrun.Reconciler) {
		r.Client = watched{Client: r.Client, before: func(context.Context, client.Object) error {
			writes.Add(1)
			return nil
		}}
	})
	readWithRetry(env, run, v1alpha1.HookRunPhaseCompleted)
	readWithRetry(env, plan(env, subject(env)), v1alpha1.HookRunPhaseCompleted)
	if run.Status.Removing || writes.Load() != 4 {
		t.Errorf("there were %d writes for two runs, want 2 each; what ran is being removed: %t", writes.Load(), run.Status.Removing)
	}
}

// TestWithdrawnAction has a Plugin declare an action no more while that goes on, and the
// operator be restarted: nobody can follow it, and it must not run beside what comes next.
func TestWithdrawnAction(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		meanwhile func(*v1alpha1.HookRun)
		phase     v1alpha1.HookRunPhase
		event     string
	}{
		"it was to end": {desire(v1alpha1.HookDesiredStateCancel), v1alpha1.HookRunPhaseCancelled, "Warning Cancelled: Cancelled while it ran"},
		"it was to go on": {
			func(*v1alpha1.HookRun) {}, v1alpha1.HookRunPhaseFailed, "Warning Invalid: Plugin example does not provide the action any more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := cluster.NewEnv(t)
			run := plan(env, subject(env))
			begun(t, env)
			suite.UpdateWithRetry(env, run, tc.meanwhile)
			second := goingOn(working())
			second.withdrawn = true
			operator(t, env, second)
			awaitRemoved(env, run)
			if run.Status.Phase != tc.phase || len(second.stopped) != 1 || len(run.Status.Attempts) != 1 {
				t.Errorf("the run is %s after %d attempts, %d were ended, want %s, 1 and 1",
					run.Status.Phase, len(run.Status.Attempts), len(second.stopped), tc.phase)
			}
			env.WaitForEvent(run, tc.event)
		})
	}
}

// TestOrphanThatGoesOn removes a Backup by force while an action of it goes on.
func TestOrphanThatGoesOn(t *testing.T) {
	t.Parallel()
	env := cluster.NewEnv(t)
	backup := subject(env)
	run := plan(env, backup)
	begun(t, env)
	env.Delete(backup)
	env.Delete(run)
	second := goingOn(working())
	operator(t, env, second)
	env.WaitForDeletion(run)
	if len(second.made()) > 0 || len(second.stopped) != 1 {
		t.Errorf("%d calls were made and %d ended before the run was gone, want none and 1", len(second.made()), len(second.stopped))
	}
	env.WaitForEvent(run, "Warning CleanupAbandoned: Given up: its Backup "+backup.Name+" was removed by force")
}

// TestTakeoverThatCannotRead has the Backup not be readable for a moment as an operator takes a
// DeleteAction over.
func TestTakeoverThatCannotRead(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"the API server is away": apierrors.NewServiceUnavailable("etcd has no leader"),
		"a right is missing":     apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("backups").GroupResource(), "x", errors.New("no access")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := cluster.NewEnv(t)
			backup := subject(env)
			run := deletionOf(t, env, backup)
			begun(t, env)
			second := goingOn(working())
			operator(t, env, second, func(r *hookrun.Reconciler) {
				r.Reader = &failing{Reader: r.Reader, err: err, times: 1}
			})
			awaitRemoved(env, run)
			if diff := cmp.Diff([]int32{1}, second.made()); diff != "" || len(run.Status.Attempts) != 1 || run.Status.Phase != v1alpha1.HookRunPhaseCompleted {
				t.Errorf("the run is %s after %d attempts, want Completed after 1; calls (-want +got):\n%s", run.Status.Phase, len(run.Status.Attempts), diff)
			}
		})
	}
}
