// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/operation"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// TestCancelingMessage checks the message and the calls until the outcome is known.
func TestCancelingMessage(t *testing.T) {
	t.Parallel()
	refused := &operation.Failure{Answered: true, Text: "not now"}
	for name, tc := range map[string]struct {
		events  []event
		message string
		step    operation.Decision
	}{
		"requested": {
			events: []event{wantCancel(0)}, message: "Canceling because joe wants that; the plugin has not answered yet",
			step: operation.Decision{Cancel: true, RequeueAfter: 500 * time.Millisecond},
		},
		"in flight": {
			events:  []event{wantCancel(0), {at: 10 * time.Second, seen: operation.Observed{Cancelling: true, Polling: true}}},
			message: "Canceling because joe wants that; the plugin has not answered yet",
			step:    operation.Decision{RequeueAfter: 6*time.Minute - 10*time.Second}, // a minute more, because the plugin never answered
		},
		"queued": {
			events:  []event{wantCancel(0), {at: 10 * time.Second, seen: operation.Observed{Cancelling: true, CancelQueued: true, Polling: true}}},
			message: "Canceling because joe wants that; the plugin has not answered yet",
			step:    operation.Decision{RequeueAfter: 65*time.Minute - 10*time.Second},
		},
		"refused, retried": {
			events:  []event{wantCancel(0), cancelCalled(0, refused), {at: 10 * time.Second, seen: operation.Observed{Polling: true}}},
			message: "Canceling because joe wants that; the plugin refused: not now",
			step:    operation.Decision{Cancel: true, RequeueAfter: 6*time.Minute - 10*time.Second},
		},
		"acknowledged": {
			events: []event{wantCancel(0), cancelCalled(0, nil)}, message: "Canceling because joe wants that; the plugin has not confirmed the end yet",
			step: operation.Decision{RequeueAfter: 500 * time.Millisecond},
		},
		"refused": {
			events: []event{wantCancel(0), cancelCalled(0, refused)}, message: "Canceling because joe wants that; the plugin refused: not now",
			step: operation.Decision{RequeueAfter: 500 * time.Millisecond},
		},
		"not reached": {
			events:  []event{wantCancel(0), cancelCalled(0, &away), {at: 0, seen: operation.Observed{Polling: true}}},
			message: "Canceling because joe wants that; the plugin cannot be reached; retrying: the plugin is not loaded",
			step:    operation.Decision{RequeueAfter: time.Second},
		},
		"not reached again": {
			events:  []event{wantCancel(0), cancelCalled(0, &away), cancelCalled(time.Second, &away), {at: time.Second, seen: operation.Observed{Polling: true}}},
			message: "Canceling because joe wants that; the plugin cannot be reached; retrying: the plugin is not loaded",
			step:    operation.Decision{RequeueAfter: 2 * time.Second},
		},
		"called again": {
			events:  []event{wantCancel(0), cancelCalled(0, &away), {at: 10 * time.Second, seen: operation.Observed{Polling: true}}},
			message: "Canceling because joe wants that; the plugin cannot be reached; retrying: the plugin is not loaded",
			step:    operation.Decision{Cancel: true, RequeueAfter: 6*time.Minute - 10*time.Second},
		},
		"polled faster": {
			events:  []event{bytes(9*time.Second, 1, 9), wantCancel(10 * time.Second), cancelCalled(10*time.Second, nil), bytes(20*time.Second, 1, 9)},
			message: "Canceling because joe wants that; the plugin has not confirmed the end yet",
			step:    operation.Decision{RequeueAfter: 5 * time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			op := begun()
			step := play(op, &operation.Memory{}, tc.events...)
			want := outcome{"Cancelling", "Cancelling", tc.message}
			if diff := cmp.Diff(want, outcomeOf(op)); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.step, step); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDecideCancel_WriteFirst delays the write that a timed out operation is canceled. Only that
// write tells another operator, so it comes before the call.
func TestDecideCancel_WriteFirst(t *testing.T) {
	t.Parallel()
	op, mem := begun(), &operation.Memory{}
	op.Spec.Timeout.Duration = time.Second
	for _, at := range []time.Duration{time.Second, time.Minute, time.Hour} {
		if step := machine().Decide(op, mem, operation.Observed{}, noon.Add(at)); step.Write != operation.RequiredWrite || step.Cancel {
			t.Fatalf("after %s: %+v, want a write and no call", at, step)
		}
	}
	if want := noon.Add(time.Hour + 5*time.Minute); !op.Status.Cancel.Deadline.Time.Equal(want) {
		t.Errorf("the deadline is %s, want %s, counted from the earliest possible call", op.Status.Cancel.Deadline, want)
	}
	mem.RecordWritten(&op.Status)
	if step := machine().Decide(op, mem, operation.Observed{}, noon.Add(time.Hour)); !step.Cancel {
		t.Errorf("%+v, want a call", step)
	}
	// Another operator does not know whether Cancel was called.
	step := machine().Decide(op, &operation.Memory{}, operation.Observed{}, noon.Add(24*time.Hour))
	if op.Ended() || !step.Poll || !step.Cancel {
		t.Errorf("%+v, want both calls, however late it is", step)
	}
}

// TestDecideCancel_Requested calls Cancel without a write, because every operator finds the request
// in the spec.
func TestDecideCancel_Requested(t *testing.T) {
	t.Parallel()
	op, mem := begun(), &operation.Memory{}
	play(op, mem, bytes(time.Second, 1, 9))
	stored := op.DeepCopy()
	stored.Spec.DesiredState = v1alpha1.DesiredStateCancel
	if step := play(op, mem, wantCancel(2*time.Second)); !step.Cancel || step.Write != operation.NoWrite {
		t.Fatalf("%+v, want a call and no write", step)
	}
	// The plugin stops the operation, and this operator is replaced.
	failed := item.Progress{Completed: true, Err: "interrupted"}
	play(stored, &operation.Memory{}, nothing(3*time.Second), told(4*time.Second, failed))
	if stored.Status.Phase != v1alpha1.AsyncOperationPhaseCancelled {
		t.Errorf("the phase is %s, want Cancelled: the other operator may have called Cancel", stored.Status.Phase)
	}
	orphan, orphaned := begun(), operation.Observed{Orphaned: true}
	play(orphan, &operation.Memory{}, event{at: 3 * time.Second, seen: orphaned},
		event{at: 4 * time.Second, seen: operation.Observed{Orphaned: true, Poll: &operation.PollResult{Progress: failed}}})
	if orphan.Status.Phase != v1alpha1.AsyncOperationPhaseCancelled {
		t.Errorf("without its parent, the phase is %s, want Cancelled", orphan.Status.Phase)
	}
}
