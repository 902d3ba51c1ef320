// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/executor"
)

// TestDecide_OwedRetries: owed clean-up is retried after every kind of failure.
func TestDecide_OwedRetries(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]callOutcome{
		"failed": broken, "unreachable": unreachable, "timed out": late, "invalid": invalid, "panicked": panicked,
	} {
		t.Run(name, func(t *testing.T) {
			run, now := build(owed, ignoring, failOnInterruption), start
			var pauses []time.Duration
			for range 14 {
				if next := decide(run, observed{}, now); next.command != startCall {
					t.Fatalf("next is %+v, want a call; status %+v", next, run.Status)
				}
				next := decide(run, observed{inFlight: true, result: &bad}, now)
				if run.Status.CompletionTimestamp != nil || next.requeueAfter <= 0 {
					t.Fatalf("owed clean-up was abandoned: next %+v, status %+v", next, run.Status)
				}
				pauses = append(pauses, next.requeueAfter/time.Second)
				now = now.Add(next.requeueAfter)
			}
			if diff := cmp.Diff([]time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300, 300}, pauses); diff != "" {
				t.Errorf("the back-off in seconds (-want +got):\n%s", diff)
			}
			if n := len(run.Status.Attempts); n != maxRecordedAttempts || run.Status.Attempts[n-1].Number != 14 || run.Status.Attempts[0].Number != 5 {
				t.Errorf("the status lists %d attempts, %d to %d; want 10, 5 to 14", n,
					run.Status.Attempts[0].Number, run.Status.Attempts[n-1].Number)
			}
			decide(run, observed{}, now)
			decide(run, observed{inFlight: true, result: &done}, now)
			if run.Status.Phase != completed {
				t.Errorf("the last attempt succeeded, but the phase is %s", run.Status.Phase)
			}
		})
	}
}

func TestDecide_Retries(t *testing.T) {
	t.Parallel()
	for n := int32(0); n <= 10; n++ {
		run, now, calls := build(retries(n)), start, int32(0)
		for run.Status.CompletionTimestamp == nil {
			if next := decide(run, observed{}, now); next.command != startCall {
				t.Fatalf("retries %d: next is %+v, want a call", n, next)
			}
			calls++
			now = now.Add(decide(run, observed{inFlight: true, result: &broken}, now).requeueAfter)
		}
		if calls != n+1 || run.Status.Phase != failedPhase {
			t.Errorf("with %d retries the action was called %d times, phase %s", n, calls, run.Status.Phase)
		}
	}
}

func TestDecide_Deadline(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		timeout, at, want time.Duration
	}{
		"whole seconds":                   {timeout: time.Minute, want: time.Minute},
		"the API would truncate it":       {timeout: time.Minute, at: 900 * time.Millisecond, want: 61 * time.Second},
		"the API would truncate to zero":  {timeout: 300 * time.Millisecond, want: time.Second},
		"the API would shorten it":        {timeout: time.Second, at: 999 * time.Millisecond, want: 2 * time.Second},
		"a nanosecond counts as a second": {timeout: time.Second, at: 1, want: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			run := build()
			run.Spec.Timeout.Duration = tc.timeout
			decide(run, observed{}, start.Add(tc.at))
			if got := run.Status.Attempts[0].Deadline.Sub(start); got != tc.want {
				t.Errorf("the deadline is %s after the whole second, want %s", got, tc.want)
			}
		})
	}
}

func TestDecide_Conditions(t *testing.T) {
	t.Parallel()
	type verdict struct{ succeeded, ready, reconciling, stalled metav1.ConditionStatus }
	yes, no, unknown := metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	for name, tc := range map[string]struct {
		run  *v1alpha1.HookRun
		want verdict
	}{
		"pending":   {build(func(r *v1alpha1.HookRun) { r.Spec.DesiredState = waits; decide(r, observed{}, start) }), verdict{unknown, no, yes, no}},
		"running":   {build(calledAt(0)), verdict{unknown, no, yes, no}},
		"again":     {build(calledAt(0), answeredAt(0, notDone)), verdict{unknown, no, yes, no}},
		"retrying":  {build(retries(1), calledAt(0), answeredAt(0, broken)), verdict{unknown, no, yes, no}},
		"completed": {build(calledAt(0), answeredAt(0, done)), verdict{yes, yes, no, no}},
		"ignored":   {build(ignoring, calledAt(0), answeredAt(0, late)), verdict{yes, yes, no, no}},
		"failed":    {build(calledAt(0), answeredAt(0, broken)), verdict{no, no, no, yes}},
		"skipped":   {build(func(r *v1alpha1.HookRun) { r.Spec.DesiredState = cancel; decide(r, observed{}, start) }), verdict{yes, yes, no, no}},
		"cancelled": {build(calledAt(0), func(r *v1alpha1.HookRun) {
			r.Spec.DesiredState = cancel
			decide(r, observed{inFlight: true, result: &cut}, start)
		}), verdict{no, no, no, yes}},
	} {
		t.Run(name, func(t *testing.T) {
			status := func(of string) metav1.ConditionStatus {
				c := conditions.Get(tc.run, of)
				if c == nil || c.ObservedGeneration != tc.run.Generation || c.Reason == "" || c.Message != tc.run.Status.Message {
					t.Fatalf("condition %s is %+v, want a reason, the message %q and the generation", of, c, tc.run.Status.Message)
				}
				return c.Status
			}
			got := verdict{status("Succeeded"), status("Ready"), status("Reconciling"), status("Stalled")}
			if got != tc.want {
				t.Errorf("conditions are %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestDecide_OutputsAndDuration(t *testing.T) {
	t.Parallel()
	run := build(calledAt(0), answeredAt(700*time.Millisecond, done))
	if diff := cmp.Diff(map[string]v1alpha1.ParameterValue{"replicas": "3"}, run.Status.Outputs); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
	if run.Status.Duration != "42ms" {
		t.Errorf("one call of 42ms has the duration %q", run.Status.Duration)
	}
	run = build(retries(1), calledAt(0), answeredAt(0, broken), calledAt(time.Second), answeredAt(2900*time.Millisecond, done))
	if run.Status.Duration != "3s" {
		t.Errorf("a HookRun of 2.9s with a retry has the duration %q", run.Status.Duration)
	}
	run = build(calledAt(0), answeredAt(0, notDone), calledAt(5*time.Second), answeredAt(6*time.Second, done))
	if run.Status.Duration != "6s" {
		t.Errorf("a HookRun of 6s with two calls has the duration %q", run.Status.Duration)
	}
	run = build(calledAt(0), answeredAt(time.Minute, done))
	if run.Status.Duration != "1m0s" {
		t.Errorf("a HookRun of 1m, of which this operator saw the last 42ms, has the duration %q", run.Status.Duration)
	}
}

// TestDecide_Progress: what an unfinished or failed attempt did is known to the next call, and to the
// action that undoes it.
func TestDecide_Progress(t *testing.T) {
	t.Parallel()
	progress := map[string]string{"done": "pod-a"}
	want := map[string]v1alpha1.ParameterValue{"done": "pod-a"}
	again, fails, cutOff := notDone, failed(executor.Failed), failed(executor.Interrupted)
	again.Value.Progress = progress
	for _, outcome := range []*callOutcome{&fails, &cutOff} {
		known := (*executor.Error)(nil)
		if !errors.As(outcome.Err, &known) {
			t.Fatal(outcome.Err)
		}
		known.Progress = progress
	}
	for name, tc := range map[string]struct {
		run  *v1alpha1.HookRun
		want map[string]v1alpha1.ParameterValue
	}{
		"not done":      {build(calledAt(0), answeredAt(0, again)), want},
		"fails":         {build(calledAt(0), answeredAt(0, fails)), want},
		"retried":       {build(retries(1), calledAt(0), answeredAt(0, fails), calledAt(time.Second), answeredAt(time.Second, broken)), want},
		"interrupted":   {build(calledAt(0), answeredAt(0, cutOff)), want},
		"done":          {build(calledAt(0), answeredAt(0, again), calledAt(5*time.Second), answeredAt(6*time.Second, done)), map[string]v1alpha1.ParameterValue{"replicas": "3"}},
		"says not more": {build(calledAt(0), answeredAt(0, again), calledAt(5*time.Second), answeredAt(6*time.Second, notDone)), want},
	} {
		if diff := cmp.Diff(tc.want, tc.run.Status.Outputs); diff != "" {
			t.Errorf("%s: outputs (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(tc.want, toParameterValues(newCall(tc.run).Progress)); diff != "" {
			t.Errorf("%s: the next call (-want +got):\n%s", name, diff)
		}
	}
	if progress := newCall(build()).Progress; progress != nil {
		t.Errorf("the first call has %v", progress)
	}
}

func toParameterValues(values map[string]string) map[string]v1alpha1.ParameterValue {
	converted := map[string]v1alpha1.ParameterValue{}
	for key, value := range values {
		converted[key] = v1alpha1.ParameterValue(value)
	}
	return converted
}

// TestDecide_IgnoredFailure: an action that completed may have ignored failures, which are a warning of
// the run.
func TestDecide_IgnoredFailure(t *testing.T) {
	t.Parallel()
	some := done
	some.Value.Ignored = true
	run := build(calledAt(0), answeredAt(0, some))
	c := conditions.Get(run, v1alpha1.ConditionSucceeded)
	if run.Status.Phase != completed || c.Reason != v1alpha1.ReasonIgnored || c.Status != metav1.ConditionTrue || run.Status.Outputs == nil {
		t.Errorf("the status is %+v", run.Status)
	}
}
