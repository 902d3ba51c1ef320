// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/hookrun"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// goingOn is an action that continues without the operator. Stopped calls are sent to a channel.
func goingOn(do *actions) *actions {
	do.resumes, do.stopped = true, make(chan executor.Call, 9)
	return do
}

// begun starts an operator, waits until it calls the action of a HookRun, and stops it.
func begun(t testing.TB, env *suite.Env) {
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
		t.Fatal("the action was stopped together with the operator")
	}
}

var _ = Describe("The resources of a HookRun", Label("hooks"), func() {
	It("keeps an answer that could not be recorded", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		run := plan(env, createBackup(env), failOnInterruption)
		first := goingOn(working())
		var tried atomic.Int32
		stop, _ := operator(t, env, first, func(r *hookrun.Reconciler) {
			r.Client = watched{Client: r.Client, before: func(_ context.Context, obj client.Object) error {
				if obj.(*v1alpha1.HookRun).Status.CompletionTimestamp == nil {
					return nil
				}
				tried.Add(1)
				return errors.New("the API server is unavailable")
			}}
		})
		suite.Eventually(t, func() string {
			if tried.Load() < 2 {
				return "the operator did not try to record the answer"
			}
			return ""
		})
		stop()
		if len(first.stopped) > 0 {
			t.Error("the resources were deleted before the answer was recorded")
		}
		second := goingOn(working())
		operator(t, env, second)
		awaitRemoved(env, run)
		if diff := cmp.Diff([]int32{1}, second.made()); diff != "" || run.Status.Phase != v1alpha1.HookRunPhaseCompleted {
			t.Errorf("phase %s; calls of the second operator (-want +got):\n%s", run.Status.Phase, diff)
		}
		if n := len(second.stopped); n != 1 {
			t.Errorf("the resources were deleted %d times, want once", n)
		}
	})

	It("removes the rest after a restart", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		backup := createBackup(env)
		run := plan(env, backup)
		first := goingOn(working())
		first.stuck = true
		stop, _ := operator(t, env, first)
		suite.Eventually(t, func() string {
			if len(first.stopped) == 0 {
				return "the resources are not being deleted"
			}
			return ""
		})
		if call := <-first.stopped; call.Key != string(run.UID) || call.Attempt != 1 {
			t.Errorf("stopped call %+v", call)
		}
		stop()
		// The finalizer stays until that is done.
		env.Delete(backup)
		env.Delete(run)
		if !suite.GetIfExists(env, run) || run.Status.Phase != v1alpha1.HookRunPhaseCompleted || !run.Status.Removing ||
			!controllerutil.ContainsFinalizer(run, v1alpha1.FinalizerHookRun) {
			t.Fatalf("the stopped operator left %+v", run.Status)
		}
		second := goingOn(working())
		operator(t, env, second)
		env.WaitForDeletion(run)
		if len(second.made()) > 0 || len(second.stopped) != 1 {
			t.Errorf("%d calls made and %d removed, want none and 1", len(second.made()), len(second.stopped))
		}
	})

	It("makes no additional writes when the action ends with the operator", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		run := plan(env, createBackup(env))
		var written sync.Map // versions; a write over one from a stale cache is refused, and repeats it
		operator(t, env, working(), func(r *hookrun.Reconciler) {
			r.Client = watched{Client: r.Client, before: func(_ context.Context, run client.Object) error {
				written.Store(run.GetName()+" "+run.GetResourceVersion(), true)
				return nil
			}}
		})
		waitForPhase(env, run, v1alpha1.HookRunPhaseCompleted)
		waitForPhase(env, plan(env, createBackup(env)), v1alpha1.HookRunPhaseCompleted)
		writes := 0
		written.Range(func(any, any) bool { writes++; return true })
		if run.Status.Removing || writes != 4 {
			t.Errorf("%d writes for two HookRuns, want 2 each; status.removing = %t", writes, run.Status.Removing)
		}
	})

	Context("does not resume an action that its Plugin no longer provides", func() {
		for name, tc := range suite.SortedByName(map[string]struct {
			meanwhile func(*v1alpha1.HookRun)
			phase     v1alpha1.HookRunPhase
			event     string
		}{
			"desired state Cancel": {desire(v1alpha1.HookDesiredStateCancel), v1alpha1.HookRunPhaseCancelled, "Warning Cancelled: Canceled while running"},
			"desired state Run": {
				func(*v1alpha1.HookRun) {}, v1alpha1.HookRunPhaseFailed, "Warning Invalid: Plugin example no longer provides the action",
			},
		}) {
			It(name, func() {
				t := GinkgoTB()
				env := cluster.NewEnv(t)
				run := plan(env, createBackup(env))
				begun(t, env)
				suite.UpdateWithRetry(env, run, tc.meanwhile)
				second := goingOn(working())
				second.withdrawn = true
				operator(t, env, second)
				awaitRemoved(env, run)
				if run.Status.Phase != tc.phase || len(second.stopped) != 1 || len(run.Status.Attempts) != 1 {
					t.Errorf("phase %s after %d attempts, %d stopped; want %s, 1 and 1",
						run.Status.Phase, len(run.Status.Attempts), len(second.stopped), tc.phase)
				}
				env.WaitForEvent(run, tc.event)
			})
		}
	})

	It("stops an action whose Backup was deleted", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		backup := createBackup(env)
		run := plan(env, backup)
		begun(t, env)
		env.Delete(backup)
		env.Delete(run)
		second := goingOn(working())
		operator(t, env, second)
		env.WaitForDeletion(run)
		if len(second.made()) > 0 || len(second.stopped) != 1 {
			t.Errorf("%d calls made and %d stopped before the HookRun was deleted, want none and 1", len(second.made()), len(second.stopped))
		}
		env.WaitForEvent(run, "Warning CleanupAbandoned: Abandoned: its Backup "+backup.Name+" was deleted without its finalizer")
	})

	Context("waits until the Backup of a DeleteAction can be read", func() {
		for name, err := range suite.SortedByName(map[string]error{
			"API server unavailable": apierrors.NewServiceUnavailable("etcd has no leader"),
			"missing permission":     apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("backups").GroupResource(), "x", errors.New("no access")),
		}) {
			It(name, func() {
				t := GinkgoTB()
				env := cluster.NewEnv(t)
				backup := createBackup(env)
				run := deletionOf(t, env, backup)
				begun(t, env)
				second := goingOn(working())
				operator(t, env, second, func(r *hookrun.Reconciler) {
					r.Reader = &failing{Reader: r.Reader, err: err, times: 1}
				})
				awaitRemoved(env, run)
				if diff := cmp.Diff([]int32{1}, second.made()); diff != "" || len(run.Status.Attempts) != 1 || run.Status.Phase != v1alpha1.HookRunPhaseCompleted {
					t.Errorf("phase %s after %d attempts, want Completed after 1; calls (-want +got):\n%s", run.Status.Phase, len(run.Status.Attempts), diff)
				}
			})
		}
	})
})
