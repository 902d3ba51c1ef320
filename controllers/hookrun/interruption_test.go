// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun_test

import (
	"context"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/hookrun"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// hanging is an action that runs until it is stopped.
func hanging() *actions {
	return &actions{do: func(ctx context.Context, call executor.Call) (executor.Answer, error) {
		<-ctx.Done()
		return executor.Answer{}, executor.NewError(executor.Interrupted, call, "was interrupted before it answered", ctx.Err())
	}}
}

func working() *actions {
	return &actions{do: func(context.Context, executor.Call) (executor.Answer, error) { return executor.Answer{}, nil }}
}

func owed(run *v1alpha1.HookRun) { run.Spec.Owed = true }

func failOnInterruption(run *v1alpha1.HookRun) {
	run.Spec.OnInterruption = v1alpha1.InterruptionPolicyFail
}

var _ = Describe("An interrupted HookRun", Label("hooks"), func() {
	Context("is retried by the next operator", func() {
		for name, tc := range suite.SortedByName(map[string]struct {
			edits []func(*v1alpha1.HookRun)
			phase v1alpha1.HookRunPhase
			calls []int32 // of the second operator
			event string
		}{
			"called again":                {phase: v1alpha1.HookRunPhaseCompleted, calls: []int32{2}, event: "Normal Running: Running attempt 2"},
			"must not be called again":    {edits: []func(*v1alpha1.HookRun){failOnInterruption}, phase: v1alpha1.HookRunPhaseFailed, event: "Warning Interrupted: the operator stopped while the action was running"},
			"owed clean-up always called": {edits: []func(*v1alpha1.HookRun){failOnInterruption, owed}, phase: v1alpha1.HookRunPhaseCompleted, calls: []int32{2}, event: "Normal Completed: Done"},
		}) {
			It(name, func() {
				t := GinkgoTB()
				env := cluster.NewEnv(t)
				run := plan(env, createBackup(env), tc.edits...)
				first := hanging()
				stop, _ := operator(t, env, first)
				suite.Eventually(t, func() string {
					if len(first.made()) == 0 {
						return "the action was not called"
					}
					return ""
				})
				stop()
				if !suite.GetIfExists(env, run) || run.Status.Phase != v1alpha1.HookRunPhaseInProgress || len(run.Status.Attempts) != 1 {
					t.Fatalf("the stopped operator left %+v, want an unchanged attempt", run.Status)
				}
				second := working()
				operator(t, env, second)
				waitForPhase(env, run, tc.phase)
				if diff := cmp.Diff(tc.calls, second.made()); diff != "" {
					t.Errorf("calls of the second operator (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff([]int32{1}, first.made()); diff != "" {
					t.Errorf("calls of the first operator (-want +got):\n%s", diff)
				}
				env.WaitForEvent(run, tc.event)
			})
		}
	})

	Context("is resumed when its action continues without the operator", func() {
		for name, tc := range suite.SortedByName(map[string]struct {
			edits []func(*v1alpha1.HookRun)
			// meanwhile is what happens while no operator runs.
			meanwhile func(*v1alpha1.HookRun)
			phase     v1alpha1.HookRunPhase
			calls     []int32 // of the second operator
		}{
			"resumed in the same attempt": {edits: []func(*v1alpha1.HookRun){failOnInterruption}, phase: v1alpha1.HookRunPhaseCompleted, calls: []int32{1}},
			"stopped if it was canceled": {
				meanwhile: func(run *v1alpha1.HookRun) { run.Spec.DesiredState = v1alpha1.HookDesiredStateCancel },
				phase:     v1alpha1.HookRunPhaseCancelled,
			},
		}) {
			It(name, func() {
				t := GinkgoTB()
				env := cluster.NewEnv(t)
				run := plan(env, createBackup(env), tc.edits...)
				first := hanging()
				first.resumes = true
				stop, _ := operator(t, env, first)
				suite.Eventually(t, func() string {
					if len(first.made()) == 0 {
						return "the action was not called"
					}
					return ""
				})
				stop()
				if tc.meanwhile != nil {
					suite.UpdateWithRetry(env, run, tc.meanwhile)
				}
				second := working()
				second.resumes, second.stopped = true, make(chan executor.Call, 9)
				operator(t, env, second)
				waitForPhase(env, run, tc.phase)
				if diff := cmp.Diff(tc.calls, second.made()); diff != "" {
					t.Errorf("calls of the second operator (-want +got):\n%s", diff)
				}
				awaitRemoved(env, run)
				if len(run.Status.Attempts) != 1 || len(second.stopped) != 1 {
					t.Fatalf("%d attempts, leftovers removed %d times; want one each", len(run.Status.Attempts), len(second.stopped))
				}
				if call := <-second.stopped; call.Key != string(run.UID) || call.Attempt != 1 || call.Point != "PreBackup" {
					t.Errorf("stopped call %+v", call)
				}
			})
		}
	})

	Context("ends when its action exceeded the deadline without an operator", func() {
		for name, tc := range suite.SortedByName(map[string]struct {
			ended  execute
			phase  v1alpha1.HookRunPhase
			reason string // of the attempt
			text   string
		}{
			"ended in time": {
				ended: working().do, phase: v1alpha1.HookRunPhaseCompleted, text: "Done",
			},
			"failed in time": {
				ended: func(_ context.Context, call executor.Call) (executor.Answer, error) {
					return executor.Answer{}, executor.NewError(executor.Failed, call, "the disk is full", nil)
				},
				phase: v1alpha1.HookRunPhaseFailed, reason: v1alpha1.ReasonActionFailed, text: "the disk is full",
			},
			"did not end, for a known reason": {
				ended: func(_ context.Context, call executor.Call) (executor.Answer, error) {
					return executor.Answer{}, executor.NewError(executor.Timeout, call, "its node worker-3 does not answer", nil)
				},
				phase: v1alpha1.HookRunPhaseFailed, reason: v1alpha1.ReasonTimedOut, text: "its node worker-3 does not answer",
			},
			"did not end": {
				phase: v1alpha1.HookRunPhaseFailed, reason: v1alpha1.ReasonTimedOut,
				text: "did not end before its deadline, which passed while another operator took over",
			},
		}) {
			It(name, func() {
				t := GinkgoTB()
				env := cluster.NewEnv(t)
				run := plan(env, createBackup(env))
				first := hanging()
				first.resumes = true
				stop, _ := operator(t, env, first)
				suite.Eventually(t, func() string {
					if len(first.made()) == 0 {
						return "the action was not called"
					}
					return ""
				})
				stop()
				second := working()
				second.resumes, second.stopped, second.ended = true, make(chan executor.Call, 9), tc.ended
				operator(t, env, second, func(r *hookrun.Reconciler) {
					r.Now = func() time.Time { return time.Now().Add(time.Hour) }
				})
				waitForPhase(env, run, tc.phase)
				awaitRemoved(env, run)
				if got := run.Status.Attempts[0].Reason; got != tc.reason || run.Status.Message != tc.text || len(run.Status.Attempts) != 1 {
					t.Errorf("reason %q of %d attempts, message %q; want %q of 1, %q", got, len(run.Status.Attempts), run.Status.Message, tc.reason, tc.text)
				}
				if len(second.made()) > 0 || len(second.stopped) != 1 {
					t.Errorf("%d calls made and %d stopped, want none and 1", len(second.made()), len(second.stopped))
				}
				if lasted, err := time.ParseDuration(run.Status.Duration); err != nil || lasted < time.Hour {
					t.Errorf("the duration is %q, want that of the whole HookRun", run.Status.Duration)
				}
			})
		}
	})

	It("stays as it is when it has finished", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		backup := createBackup(env)
		run := plan(env, backup)
		stop, _ := operator(t, env, working())
		waitForPhase(env, run, v1alpha1.HookRunPhaseCompleted)
		stop()
		suite.UpdateWithRetry(env, run, desire(v1alpha1.HookDesiredStateCancel))
		want := run.DeepCopy()
		conditions.ObserveGeneration(want)
		second := working()
		operator(t, env, second)
		waitForPhase(env, plan(env, backup), v1alpha1.HookRunPhaseCompleted)
		waitForPhase(env, run, v1alpha1.HookRunPhaseCompleted)
		if diff := cmp.Diff(want.Status, run.Status); diff != "" || len(second.made()) != 1 {
			t.Errorf("a finished HookRun was changed, %d calls; status (-before +after):\n%s", len(second.made()), diff)
		}
	})

	It("stops the action", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		backup := createBackup(env)
		do := hanging()
		operator(t, env, do)

		running := plan(env, backup)
		waitForPhase(env, running, v1alpha1.HookRunPhaseInProgress)
		suite.Eventually(t, func() string {
			if len(do.made()) == 0 {
				return "the action is not called"
			}
			return ""
		})
		suite.UpdateWithRetry(env, running, desire(v1alpha1.HookDesiredStateCancel))
		waitForPhase(env, running, v1alpha1.HookRunPhaseCancelled)
		env.WaitForEvent(running, "Warning Cancelled: Canceled while running")

		waiting := plan(env, backup, owed, desire(v1alpha1.HookDesiredStateWait))
		waitForPhase(env, waiting, v1alpha1.HookRunPhasePending)
		suite.UpdateWithRetry(env, waiting, desire(v1alpha1.HookDesiredStateCancel))
		waitForPhase(env, waiting, v1alpha1.HookRunPhaseSkipped)
		env.WaitForEvent(waiting, "Normal NotNeeded: Not needed")
		if diff := cmp.Diff([]int32{1}, do.made()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})

	It("continues when it is clean-up", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		backup := createBackup(env)
		release := make(chan struct{})
		operator(t, env, &actions{do: func(ctx context.Context, call executor.Call) (executor.Answer, error) {
			if call.Action == "example.io/other" {
				return executor.Answer{}, nil
			}
			select {
			case <-release:
				return executor.Answer{Message: "thawed"}, nil
			case <-ctx.Done():
				return executor.Answer{}, executor.NewError(executor.Interrupted, call, "stopped", ctx.Err())
			}
		}})
		run := plan(env, backup, owed)
		waitForPhase(env, run, v1alpha1.HookRunPhaseInProgress)
		suite.UpdateWithRetry(env, run, desire(v1alpha1.HookDesiredStateCancel))
		// When this later HookRun has finished, the controller has seen the request to cancel.
		waitForPhase(env, plan(env, backup, func(run *v1alpha1.HookRun) { run.Spec.ActionName = "example.io/other" }), v1alpha1.HookRunPhaseCompleted)
		close(release)
		waitForPhase(env, run, v1alpha1.HookRunPhaseCompleted)
		if run.Status.Message != "thawed" || run.Status.Attempt != 1 {
			t.Errorf("the status is %+v", run.Status)
		}
	})

	It("stays as long as its Backup needs its outcome", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		operator(t, env, working())
		backup := createBackup(env)
		held := plan(env, backup)
		waitForPhase(env, held, v1alpha1.HookRunPhaseCompleted)
		env.Delete(held)
		later := plan(env, backup)
		waitForPhase(env, later, v1alpha1.HookRunPhaseCompleted)
		if !suite.GetIfExists(env, held) {
			t.Fatal("the HookRun was deleted before its Backup")
		}
		env.Delete(backup)
		env.WaitForDeletion(held)
		suite.WaitFor(env, later, func(run *v1alpha1.HookRun) string {
			if controllerutil.ContainsFinalizer(run, v1alpha1.FinalizerHookRun) {
				return "the HookRun of a deleted Backup still exists"
			}
			return ""
		})
	})

	It("ends when a user removed the finalizer of its Backup", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		gone := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "gone", UID: "u-gone"}}
		another := createBackup(env)
		namesake := plan(env, another, func(run *v1alpha1.HookRun) { run.Spec.ParentRef.UID = "u-gone" }, desire(v1alpha1.HookDesiredStateWait))
		waiting := plan(env, gone, desire(v1alpha1.HookDesiredStateWait))
		abandoned := plan(env, gone, owed, func(run *v1alpha1.HookRun) {
			run.Annotations = map[string]string{v1alpha1.AnnotationAbandonCleanup: "true"}
		})
		actions := working()
		operator(t, env, actions)
		for _, run := range []client.Object{namesake, waiting, abandoned} {
			env.Delete(run)
			env.WaitForDeletion(run)
		}
		if calls := actions.made(); len(calls) > 0 {
			t.Errorf("attempts %v were called", calls)
		}
		env.WaitForEvent(abandoned, "Warning CleanupAbandoned: Abandoned: its Backup gone was deleted without its finalizer")
		if events := env.ListEventsFor(waiting); len(events) > 0 {
			t.Errorf("events about a HookRun that never started: %q", events)
		}
	})
})
