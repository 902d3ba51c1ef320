// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// endsAt sets the time at which a container ended.
func endsAt(status corev1.PodStatus, at time.Time) corev1.PodStatus {
	status.ContainerStatuses[1].State.Terminated.FinishedAt = metav1.NewTime(at)
	return status
}

// TestCollectResult stops the operator while a Job runs; the next one starts after its
// deadline.
func TestCollectResult(t *testing.T) {
	killed := exited(137, "")
	killed.ContainerStatuses[1].State.Terminated.Reason = "OOMKilled"
	evicted := corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory."}
	for name, tc := range map[string]struct {
		// pod changes the pod after a delay.
		pod   func(w *world)
		after time.Duration
		// attempt is the attempt in the call.
		attempt int32
		ended   bool
		message string
		kind    executor.ErrorKind
	}{
		"well":           {pod: becomes(exited(0, "thawed")), after: time.Minute, ended: true, message: "thawed"},
		"well, too late": {pod: becomes(exited(0, "thawed")), after: 61 * time.Second},
		"failed": {
			pod: becomes(exited(3, "no such database")), after: time.Second, ended: true,
			kind: executor.Failed, message: "ended with exit code 3: no such database",
		},
		"out of memory": {pod: becomes(killed), after: time.Second, ended: true, kind: executor.Failed, message: "was killed because it used more memory than it may"},
		"evicted": {
			pod: func(w *world) {
				w.become(w.job(), evicted)
				w.condition(w.job(), batchv1.JobCondition{Type: batchv1.JobFailed, LastTransitionTime: metav1.Now()})
			},
			after: time.Second, ended: true, kind: executor.Unreachable, message: "its pod was evicted before it answered",
		},
		"end unknown":     {pod: func(w *world) { w.become(w.job(), evicted) }, after: time.Second},
		"it runs":         {pod: func(*world) {}},
		"another attempt": {pod: becomes(exited(0, "thawed")), after: time.Second, attempt: 2},
		"it was terminated": {
			pod: func(w *world) {
				w.lingers = true
				job := w.there(w.job().Name)
				w.must((&cluster{client: w.client, namespace: namespace}).deleteJob(context.Background(), job, true))
				w.become(job, endsAt(exited(143, ""), time.Now()))
			},
			after: time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				ctx, stop := context.WithCancel(t.Context())
				x := w.execute(ctx, w.options(), call())
				deadline := time.Now().Add(time.Minute)
				w.pod(w.job(), running())
				stop()
				<-x.done
				time.Sleep(tc.after)
				tc.pod(w)
				time.Sleep(time.Hour)
				w.late(t, max(tc.attempt, 1), deadline, tc.ended, tc.kind, tc.message)
			})
		})
	}
}

// becomes ends the container of the pod now.
func becomes(status corev1.PodStatus) func(w *world) {
	return func(w *world) { w.become(w.job(), endsAt(*status.DeepCopy(), time.Now())) }
}

func (w *world) late(t *testing.T, attempt int32, deadline time.Time, wantEnded bool, kind executor.ErrorKind, message string) {
	t.Helper()
	e, err := New(w.options())
	w.must(err)
	of := call()
	of.Attempt = attempt
	answer, ended, err := e.CollectResult(logr.NewContext(t.Context(), w.lines.logger()), of, deadline)
	w.lines.close()
	text := answer.Message
	if err != nil {
		text = strings.TrimPrefix(err.Error(), "PreBackupAction(example.io/freeze): ")
	}
	if ended != wantEnded || executor.ErrorKindOf(err) != kind || !strings.HasPrefix(text, message) {
		t.Errorf("it returned %q, %t, %v; want %t, %s %q", answer.Message, ended, err, wantEnded, kind, message)
	}
	if w.there(w.job().Name) == nil {
		t.Error("the Job was removed before its answer was recorded")
	}
}

// TestCollectResult_ServerUnavailable: the API server is unreachable for a moment.
func TestCollectResult_ServerUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, stop := context.WithCancel(t.Context())
		x := w.execute(ctx, w.options(), call())
		w.pod(w.job(), running())
		stop()
		<-x.done
		w.become(w.job(), endsAt(exited(0, "thawed"), time.Now()))
		back := time.Now().Add(10 * time.Second)
		w.refuse(func(string, any) error {
			if time.Now().Before(back) {
				return errConnection
			}
			return nil
		})
		w.late(t, 1, time.Now(), true, "", "thawed")
	})
}

// TestExecute_EndDuringOutage: a Job ends in time while the API server is unreachable, which comes back after
// the deadline.
func TestExecute_EndDuringOutage(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		kind  executor.ErrorKind
	}{
		"in time":  {59 * time.Second, ""},
		"too late": {61 * time.Second, executor.Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				x := w.execute(ctx, w.options(), call())
				w.pod(w.job(), running())
				w.refuse(func(verb string, o any) error {
					if _, pods := o.(*corev1.PodList); pods && verb == "list" && ctx.Err() == nil {
						return errConnection
					}
					return nil
				})
				w.become(w.job(), endsAt(exited(0, "thawed"), time.Now().Add(tc.after)))
				<-x.done
				if executor.ErrorKindOf(x.err) != tc.kind || (x.err == nil && x.answer.Message != "thawed") {
					t.Errorf("it returned %+v, %v; want %q", x.answer, x.err, tc.kind)
				}
				if tc.kind == "" {
					w.recorded(call())
				} else {
					w.nothingLeft()
				}
			})
		})
	}
}
