// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// TestDriver_AwaitPostActionLog checks that the message of a finished run whose files must be
// stored names the step and the reason, in addition to other remaining work, and also during a
// retry.
func TestDriver_AwaitPostActionLog(t *testing.T) {
	const failure = "storing the log of the run failed: the store is read-only; retrying"
	for name, tc := range map[string]struct {
		post     v1alpha1.HookRunPhase
		storeLog func(ctx context.Context) (bool, error)
		want     string
	}{
		"beside nothing else": {want: failure},
		"while a Post action runs": {
			post: v1alpha1.HookRunPhaseInProgress,
			want: "running PostBackup action example.io/thaw; " + failure,
		},
		"while the log of the Post actions is stored": {
			post:     v1alpha1.HookRunPhaseCompleted,
			storeLog: func(ctx context.Context) (bool, error) { <-ctx.Done(); return false, ctx.Err() },
			want:     "storing the log of the PostBackup actions; " + failure,
		},
		"when the log of the Post actions is stored": {
			post:     v1alpha1.HookRunPhaseCompleted,
			storeLog: func(context.Context) (bool, error) { return true, nil },
			want:     failure,
		},
		"when that fails, too": {
			post:     v1alpha1.HookRunPhaseCompleted,
			storeLog: func(context.Context) (bool, error) { return false, errors.New("it is full") },
			want:     "storing the log of the PostBackup actions failed: it is full; retrying; " + failure,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, b := stepping(t), begun(0)
				d.Redactor = redact.New()
				release := make(chan struct{})
				defer close(release)
				tried := 0
				phases := []ReconcileFunc[*v1alpha1.Backup]{
					abandoning(d, func(context.Context) (NoValue, error) {
						if tried++; tried > 1 {
							<-release
						}
						return NoValue{}, errors.New("the store is read-only")
					}),
					d.RunPostActions,
					reconcileFinalization(d, tc.storeLog),
				}
				newScope(BackupKind, b).RecordOutcome(Outcome{v1alpha1.RunPhaseCancelled, v1alpha1.ReasonCancelled, "Cancelled: enough"}, time.Now())
				for range 20 { // by then the first attempt has failed, and the second hangs
					finishOnce(t, d, b, tc.post, phases)
				}
				if tried != 2 {
					t.Errorf("%d attempts, want 2", tried)
				}
				if got, want := b.Status.Message, "Cancelled: enough; "+tc.want; got != want {
					t.Errorf("the message is %q, want %q", got, want)
				}
				if c := conditions.Get(b, v1alpha1.ConditionReconciling); c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, failure) {
					t.Errorf("the condition is %+v, want one with %q", c, failure)
				}
			})
		})
	}
}

// TestAwaitPostActionLog_LogLost checks that there is one event for a lost log, however
// long something else holds the run.
func TestAwaitPostActionLog_LogLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, b := stepping(t), begun(0)
		recorder := events.NewFakeRecorder(100)
		d.Redactor, d.Recorder = redact.New(), recorder
		phases := []ReconcileFunc[*v1alpha1.Backup]{
			abandoning(d, func(context.Context) (NoValue, error) { return NoValue{}, errors.New("the store is away") }),
			d.RunPostActions,
			reconcileFinalization(d, func(context.Context) (bool, error) { return false, objectstore.ErrNoSpace }),
		}
		newScope(BackupKind, b).RecordOutcome(Outcome{v1alpha1.RunPhaseCancelled, v1alpha1.ReasonCancelled, "Cancelled: enough"}, time.Now())
		for range 20 {
			finishOnce(t, d, b, v1alpha1.HookRunPhaseCompleted, phases)
		}
		lost := 0
		for range len(recorder.Events) {
			if strings.Contains(<-recorder.Events, v1alpha1.ReasonLogLost) {
				lost++
			}
		}
		if lost != 1 {
			t.Errorf("%d events report that the log is lost, want one", lost)
		}
	})
}

// reconcileFinalization returns the last part of a run, which stores the log of its Post actions.
func reconcileFinalization(d *Driver[*v1alpha1.Backup], storeLog func(context.Context) (bool, error)) ReconcileFunc[*v1alpha1.Backup] {
	return func(_ context.Context, s *Scope[*v1alpha1.Backup]) (bool, error) {
		_, ready := d.AwaitPostActionLog(s, func(s *Scope[*v1alpha1.Backup]) *Result[bool] { return stepOf(d, s, StepPostLog, storeLog) })
		if ready {
			d.Finalize(s)
		}
		return ready, nil
	}
}

// abandoning is the part that abandons the files of a run.
func abandoning(d *Driver[*v1alpha1.Backup], work func(context.Context) (NoValue, error)) ReconcileFunc[*v1alpha1.Backup] {
	return func(_ context.Context, s *Scope[*v1alpha1.Backup]) (bool, error) {
		s.CleanupPending = AwaitStep(d, s, "abandon", "storing the log of the run", stepOf(d, s, "abandon", work))
		return true, nil
	}
}

func stepOf[R any](d *Driver[*v1alpha1.Backup], s *Scope[*v1alpha1.Backup], name string, work func(context.Context) (R, error)) *Result[R] {
	return ExecuteStep(d, s, name, func() (func(context.Context) (R, error), error) { return work, nil })
}

// finishOnce runs one pass over a finished Backup with one Post action, and waits a second.
func finishOnce(t *testing.T, d *Driver[*v1alpha1.Backup], b *v1alpha1.Backup, post v1alpha1.HookRunPhase, phases []ReconcileFunc[*v1alpha1.Backup]) {
	t.Helper()
	s := newScope(BackupKind, b)
	if post != "" {
		run := &v1alpha1.HookRun{Spec: v1alpha1.HookRunSpec{Hook: v1alpha1.HookPostBackup, ActionName: "example.io/thaw", DesiredState: v1alpha1.HookDesiredStateRun}}
		run.Status.Phase, run.Status.StartTimestamp = post, &metav1.Time{Time: noon}
		if post == v1alpha1.HookRunPhaseCompleted {
			run.Status.CompletionTimestamp = &metav1.Time{Time: noon}
		}
		s.Post = append(s.Post, run)
	}
	for _, phase := range phases {
		done, err := phase(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if !done {
			break
		}
	}
	for _, f := range s.afterUpdate {
		if err := f(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second)
	synctest.Wait()
}

// TestDriver_ReconcileFinalized retries a Post action of a finalized Backup. The Backup stays finalized, and
// records how the action runs and ends.
func TestDriver_ReconcileFinalized(t *testing.T) {
	t.Parallel()
	failed := metav1.NewTime(noon.Add(-time.Hour))
	ended := metav1.NewTime(noon)
	for name, tc := range map[string]struct {
		change       func(*v1alpha1.HookRun)
		wantPhase    v1alpha1.ActionPhase
		wantReason   string // of PostActionsSucceeded
		wantMessage  string
		wantReleased bool
	}{
		"it failed": {
			change:    func(*v1alpha1.HookRun) {},
			wantPhase: v1alpha1.ActionPhaseFailed, wantReason: v1alpha1.ReasonPostActionFailed, wantMessage: "3 objects; PostBackup action failed: a (it is down)",
		},
		"the HookRun differs, but not because of an intervention": {
			change:    func(h *v1alpha1.HookRun) { h.Status.Phase = v1alpha1.HookRunPhaseCompleted },
			wantPhase: v1alpha1.ActionPhaseFailed, wantReason: v1alpha1.ReasonPostActionFailed, wantMessage: "3 objects; PostBackup action failed: a (it is down)",
		},
		"a retry was refused": {
			change:    func(h *v1alpha1.HookRun) { h.Status.LastIntervention = &v1alpha1.HandledHookIntervention{} },
			wantPhase: v1alpha1.ActionPhaseFailed, wantReason: v1alpha1.ReasonPostActionFailed, wantMessage: "3 objects; PostBackup action failed: a (it is down)",
		},
		"it is retried": {
			change: func(h *v1alpha1.HookRun) {
				h.Status.Phase, h.Status.CompletionTimestamp, h.Status.Attempt = v1alpha1.HookRunPhaseInProgress, nil, 2
				h.Status.LastIntervention = &v1alpha1.HandledHookIntervention{}
			},
			wantPhase: v1alpha1.ActionPhaseInProgress, wantReason: v1alpha1.ReasonPostActionFailed, wantMessage: "3 objects; running PostBackup action a",
		},
		"the retry succeeded": {
			change: func(h *v1alpha1.HookRun) {
				h.Status.Phase, h.Status.CompletionTimestamp, h.Status.Attempt = v1alpha1.HookRunPhaseCompleted, &ended, 2
				h.Status.LastIntervention = &v1alpha1.HandledHookIntervention{}
			},
			wantPhase: v1alpha1.ActionPhaseCompleted, wantReason: v1alpha1.ReasonPostActionsSucceeded, wantMessage: "3 objects", wantReleased: true,
		},
		"the retry failed": {
			change: func(h *v1alpha1.HookRun) {
				h.Status.Message, h.Status.CompletionTimestamp, h.Status.Attempt = "it is still down", &ended, 2
				h.Status.LastIntervention = &v1alpha1.HandledHookIntervention{}
			},
			wantPhase: v1alpha1.ActionPhaseFailed, wantReason: v1alpha1.ReasonPostActionFailed,
			wantMessage: "3 objects; PostBackup action failed: a (it is still down)", wantReleased: true,
		},
		"the retry succeeded, and its Job is being removed": {
			change: func(h *v1alpha1.HookRun) {
				h.Status.Phase, h.Status.CompletionTimestamp, h.Status.Removing = v1alpha1.HookRunPhaseCompleted, &ended, true
				h.Status.LastIntervention = &v1alpha1.HandledHookIntervention{}
			},
			wantPhase: v1alpha1.ActionPhaseFailed, wantReason: v1alpha1.ReasonPostActionFailed, wantMessage: "3 objects; PostBackup action failed: a (it is down)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := begun(0)
			b.Finalizers = nil
			h := run(post, "a", v1alpha1.HookRunPhaseFailed, func(h *v1alpha1.HookRun) {
				h.Namespace, h.UID, h.Labels = b.Namespace, "h-1", map[string]string{v1alpha1.LabelParentUID: string(b.UID)}
				h.Finalizers = []string{v1alpha1.FinalizerHookRun}
				h.Status.Message, h.Status.StartTimestamp, h.Status.CompletionTimestamp = "it is down", &failed, &failed
			})
			s := newScope(BackupKind, b)
			s.Post = []*v1alpha1.HookRun{h}
			s.RecordOutcome(Outcome{v1alpha1.RunPhaseCompleted, v1alpha1.ReasonCompleted, "3 objects"}, noon)
			s.recordActionStatuses()
			s.SetPostActionsCondition()
			s.MarkFinalized()
			tc.change(h)
			d := driverWith(t, nil)
			scheme := d.Client.Scheme()
			d.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(b, h).WithStatusSubresource(b).Build()
			d.Reader, d.Recorder, d.queue = d.Client, events.NewFakeRecorder(9), newQueue(1, func(types.NamespacedName) {})
			var err error
			newList := func() client.ObjectList { return &v1alpha1.BackupList{} }
			if d.metrics, err = newMetrics(prometheus.NewRegistry(), BackupKind, d.Client, newList, func(*v1alpha1.Backup) string { return "" }); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second pass changes nothing
				if err := d.Client.Get(t.Context(), namespacedNameOf(b), b); err != nil {
					t.Fatal(err)
				}
				if err := d.ReconcileFinalized(t.Context(), b); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.Client.Get(t.Context(), namespacedNameOf(h), h); err != nil {
				t.Fatal(err)
			}
			action, condition := (*b.Status.PostBackupActionsStatuses)[0], conditions.Get(b, v1alpha1.ConditionPostActionsSucceeded)
			if action.Phase != tc.wantPhase || condition.Reason != tc.wantReason || b.Status.Message != tc.wantMessage || !IsFinalized(b) {
				t.Errorf("the Backup has %s, %s and %q, finalized: %t; want %s, %s and %q, finalized", action.Phase, condition.Reason,
					b.Status.Message, IsFinalized(b), tc.wantPhase, tc.wantReason, tc.wantMessage)
			}
			if released := len(h.Finalizers) == 0; released != tc.wantReleased {
				t.Errorf("the HookRun is released: %t, want %t", released, tc.wantReleased)
			}
		})
	}
}
