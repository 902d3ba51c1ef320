// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation_test

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/operation"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// begun returns an operation that was created at noon.
func begun(edits ...func(*v1alpha1.AsyncOperation)) *v1alpha1.AsyncOperation {
	op := &v1alpha1.AsyncOperation{
		ObjectMeta: metav1.ObjectMeta{Name: "copy", Generation: 1, CreationTimestamp: metav1.NewTime(noon)},
		Spec: v1alpha1.AsyncOperationSpec{
			Timeout:      metav1.Duration{Duration: 4 * time.Hour},
			StallTimeout: &metav1.Duration{Duration: 10 * time.Minute},
			PollInterval: metav1.Duration{Duration: 10 * time.Second},
			DesiredState: v1alpha1.DesiredStateRun,
		},
	}
	for _, edit := range edits {
		edit(op)
	}
	return op
}

// event is something that happens to an operation at a time after noon.
type event struct {
	at   time.Duration
	seen operation.Observed
	edit func(*v1alpha1.AsyncOperation)
}

func told(at time.Duration, p item.Progress) event {
	return event{at: at, seen: operation.Observed{Poll: &operation.PollResult{Progress: p}}}
}

func bytes(at time.Duration, completed, total int64) event {
	return told(at, item.Progress{NCompleted: completed, NTotal: total, OperationUnits: "bytes"})
}

func pollFailed(at time.Duration, failure operation.Failure) event {
	return event{at: at, seen: operation.Observed{Poll: &operation.PollResult{Failure: &failure}}}
}

func cancelCalled(at time.Duration, failure *operation.Failure) event {
	return event{at: at, seen: operation.Observed{Cancel: &operation.CancelResult{Failure: failure}}}
}

func nothing(at time.Duration) event { return event{at: at} }

func wantCancel(at time.Duration) event {
	return event{at: at, edit: func(op *v1alpha1.AsyncOperation) {
		op.Spec.DesiredState, op.Spec.CancelReason = v1alpha1.DesiredStateCancel, "joe wants that"
	}}
}

var (
	away    = operation.Failure{Text: "the plugin is not loaded"}
	busy    = operation.Failure{Answered: true, Text: "the service is busy"}
	unknown = operation.Failure{Answered: true, Unknown: true, Text: "no job 7"}
)

func machine() *operation.Machine {
	return &operation.Machine{ConfirmTimeout: operation.DefaultConfirmTimeout, Jitter: func() float64 { return 0.5 }}
}

// play applies events, writes each status that is due, and returns the last decision.
func play(op *v1alpha1.AsyncOperation, mem *operation.Memory, events ...event) (last operation.Decision) {
	for _, e := range events {
		if e.edit != nil {
			e.edit(op)
		}
		now := noon.Add(e.at)
		if last = machine().Decide(op, mem, e.seen, now); last.Write != operation.NoWrite {
			mem.RecordWritten(&op.Status)
			last = machine().Decide(op, mem, operation.Observed{Polling: e.seen.Polling, Cancelling: e.seen.Cancelling, CancelQueued: e.seen.CancelQueued}, now)
		}
	}
	return last
}

// outcome is what users see of an operation.
type outcome struct{ Phase, Reason, Message string }

func outcomeOf(op *v1alpha1.AsyncOperation) outcome {
	o := outcome{Phase: string(op.Status.Phase), Message: op.Status.Message}
	if c := conditions.Get(op, v1alpha1.ConditionSucceeded); c != nil {
		o.Reason = c.Reason
	}
	return o
}

func TestRunningMessage(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for name, tc := range map[string]struct {
		events []event
		want   outcome
		errors int32
	}{
		"nothing known": {
			events: []event{nothing(0)},
			want:   outcome{"New", "Started", "Started; the plugin has not reported progress yet"},
		},
		"answered": {
			events: []event{told(time.Second, item.Progress{NCompleted: 122 * mib, NTotal: 200 * mib, OperationUnits: "bytes", Description: "copying volume data"})},
			want:   outcome{"InProgress", "Running", "Running: 61 % (122 of 200 MiB); copying volume data"},
		},
		"answered without numbers": {
			events: []event{told(time.Second, item.Progress{})},
			want:   outcome{"InProgress", "Running", "Running"},
		},
		"an error of an unfinished operation is ignored": {
			events: []event{told(time.Second, item.Progress{Err: "retrying"})},
			want:   outcome{"InProgress", "Running", "Running"},
		},
		"canceled, but not done": {
			events: []event{told(time.Second, item.Progress{Cancelled: true})},
			want:   outcome{"InProgress", "Running", "Running"},
		},
		"never reached": {
			events: []event{pollFailed(time.Second, away), pollFailed(time.Minute, away)},
			want:   outcome{"New", "PluginUnreachable", "The plugin cannot be reached; retrying: the plugin is not loaded"}, errors: 2,
		},
		"answered with an error": {
			events: []event{bytes(time.Second, 1, 2), pollFailed(time.Minute, busy)},
			want:   outcome{"InProgress", "Running", "The plugin could not report progress; retrying: the service is busy"}, errors: 1,
		},
		"reached again": {
			events: []event{pollFailed(time.Second, away), bytes(time.Minute, 1, 2)},
			want:   outcome{"InProgress", "Running", "Running: 50 % (1 of 2 bytes)"}, errors: 1,
		},
		"unknown twice, then known, then unknown twice": {
			events: []event{
				pollFailed(1, unknown), pollFailed(2, unknown), bytes(3, 1, 2), pollFailed(4, unknown), pollFailed(5, unknown),
			},
			want:   outcome{"InProgress", "Running", "The plugin could not report progress; retrying: no job 7"},
			errors: 4,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			op := begun()
			step := play(op, &operation.Memory{}, tc.events...)
			if diff := cmp.Diff(tc.want, outcomeOf(op)); diff != "" || op.Status.TransientErrors != tc.errors {
				t.Errorf("%d transient errors, want %d (-want +got):\n%s", op.Status.TransientErrors, tc.errors, diff)
			}
			if op.Ended() || step.RequeueAfter == 0 || op.Status.Duration != "" {
				t.Errorf("it has ended, or nothing is scheduled: %+v", step)
			}
			if conditions.IsTrue(op, v1alpha1.ConditionReady) || !conditions.IsTrue(op, v1alpha1.ConditionReconciling) {
				t.Errorf("conditions are %+v", op.Status.Conditions)
			}
			if want := noon.Add(4 * time.Hour); !op.Status.Deadline.Time.Equal(want) {
				t.Errorf("deadline is %s, want %s", op.Status.Deadline, want)
			}
		})
	}
}

func TestFinishOperation(t *testing.T) {
	t.Parallel()
	const at = 192 * time.Second
	done := told(at, item.Progress{Completed: true, NCompleted: 5, NTotal: 5})
	failed := told(at, item.Progress{Completed: true, Err: "disk\nfull"})
	stopped := told(at, item.Progress{Completed: true, Cancelled: true})
	short := func(op *v1alpha1.AsyncOperation) { op.Spec.Timeout.Duration = 3 * time.Minute }
	stalls := func(op *v1alpha1.AsyncOperation) { op.Spec.StallTimeout.Duration = 2 * time.Minute }
	refused := &operation.Failure{Answered: true, Text: "not now"}
	for name, tc := range map[string]struct {
		edit   func(*v1alpha1.AsyncOperation)
		events []event
		want   outcome
	}{
		"successful":     {events: []event{bytes(1, 1, 2), done}, want: outcome{"Completed", "Completed", "Completed after 3m12s"}},
		"first answer":   {events: []event{done}, want: outcome{"Completed", "Completed", "Completed after 3m12s"}},
		"after failures": {events: []event{pollFailed(1, away), pollFailed(2, unknown), done}, want: outcome{"Completed", "Completed", "Completed after 3m12s"}},
		"failed":         {events: []event{failed}, want: outcome{"Failed", "OperationFailed", "disk full"}},
		"canceled elsewhere": {
			events: []event{stopped},
			want:   outcome{"Failed", "OperationFailed", "The plugin reports a cancellation that was not requested"},
		},
		"lost": {
			events: []event{pollFailed(1, unknown), pollFailed(2, away), pollFailed(3, unknown), pollFailed(at, unknown)},
			want:   outcome{"Failed", "OperationLost", "The plugin no longer knows the operation; check its outcome manually: no job 7"},
		},
		"lost while canceling": {
			events: []event{wantCancel(0), cancelCalled(1, &unknown), pollFailed(1, unknown), pollFailed(2, unknown), pollFailed(at, unknown)},
			want:   outcome{"Failed", "OperationLost", "The plugin no longer knows the operation; cancellation was requested because joe wants that; check its outcome manually: no job 7"},
		},
		"cancelled": {
			events: []event{wantCancel(time.Second), cancelCalled(2*time.Second, nil), stopped},
			want:   outcome{"Cancelled", "Cancelled", "Canceled after 3m12s: joe wants that"},
		},
		"canceled, reported with an error": {
			events: []event{wantCancel(time.Second), cancelCalled(2*time.Second, nil), failed},
			want:   outcome{"Cancelled", "Cancelled", "Canceled after 3m12s: joe wants that"},
		},
		"ended by a Cancel that is still in flight": {
			events: []event{wantCancel(time.Second), {at: at, seen: operation.Observed{Cancelling: true, Poll: failed.seen.Poll}}},
			want:   outcome{"Cancelled", "Cancelled", "Canceled after 3m12s: joe wants that"},
		},
		"failed before it was canceled": {
			events: []event{nothing(0), wantCancel(time.Second), failed},
			want:   outcome{"Failed", "OperationFailed", "disk full"},
		},
		"refused, and failed": {
			events: []event{wantCancel(time.Second), cancelCalled(2*time.Second, refused), failed},
			want:   outcome{"Failed", "OperationFailed", "disk full"},
		},
		"refused, and canceled": {
			events: []event{wantCancel(time.Second), cancelCalled(2*time.Second, refused), stopped},
			want:   outcome{"Cancelled", "Cancelled", "Canceled after 3m12s: joe wants that"},
		},
		"the cancel came too late": {
			events: []event{wantCancel(time.Second), cancelCalled(2*time.Second, nil), done},
			want:   outcome{"Completed", "Completed", "Completed after 3m12s, before it could be canceled because joe wants that"},
		},
		"deleted": {
			edit:   func(op *v1alpha1.AsyncOperation) { op.DeletionTimestamp = &metav1.Time{Time: noon} },
			events: []event{nothing(1), cancelCalled(2, nil), stopped},
			want:   outcome{"Cancelled", "Cancelled", "Canceled after 3m12s"},
		},
		"orphaned": {
			events: []event{{at: 1, seen: operation.Observed{Orphaned: true}}, cancelCalled(2, nil), stopped},
			want:   outcome{"Cancelled", "Cancelled", "Canceled after 3m12s"},
		},
		"too late": {
			edit:   short,
			events: []event{bytes(1, 1, 2), nothing(3 * time.Minute), cancelCalled(181*time.Second, nil), stopped},
			want:   outcome{"Failed", "TimedOut", "Canceled because it took longer than 3m0s"},
		},
		"too late, and then a user cancels, too": {
			edit:   short,
			events: []event{nothing(3 * time.Minute), wantCancel(181 * time.Second), cancelCalled(181*time.Second, nil), failed},
			want:   outcome{"Failed", "TimedOut", "Canceled because it took longer than 3m0s"},
		},
		"too late, refused, and failed": {
			edit:   short,
			events: []event{nothing(3 * time.Minute), cancelCalled(181*time.Second, refused), failed},
			want:   outcome{"Failed", "TimedOut", "Failed after it took longer than 3m0s: disk full"},
		},
		"too late, but successful": {
			edit:   short,
			events: []event{nothing(3 * time.Minute), cancelCalled(181*time.Second, nil), done},
			want:   outcome{"Completed", "Completed", "Completed after 3m12s, before it could be canceled because it took longer than 3m0s"},
		},
		"done at the moment of its timeout": {edit: short, events: []event{done}, want: outcome{"Completed", "Completed", "Completed after 3m12s"}},
		"stalled": {
			edit:   stalls,
			events: []event{bytes(0, 5, 9), bytes(time.Minute, 5, 9), bytes(2*time.Minute, 5, 9), cancelCalled(121*time.Second, nil), stopped},
			want:   outcome{"Failed", "OperationStalled", "Canceled because it made no progress for 2m0s"},
		},
		"goes back and forth": {
			edit:   stalls,
			events: []event{bytes(0, 5, 9), bytes(time.Minute, 3, 9), bytes(2*time.Minute, 4, 9), cancelCalled(121*time.Second, nil), stopped},
			want:   outcome{"Failed", "OperationStalled", "Canceled because it made no progress for 2m0s"},
		},
		"never confirmed": {
			events: []event{wantCancel(0), cancelCalled(1, nil), bytes(at, 1, 2), nothing(5 * time.Minute)},
			want:   outcome{"Failed", "CancelUnconfirmed", "Cancellation was requested because joe wants that, but the plugin never confirmed the end; the operation may still be running"},
		},
		"never reached to cancel": {
			events: []event{wantCancel(0), pollFailed(1, away), cancelCalled(1, &away), cancelCalled(at, &away), nothing(5 * time.Minute)},
			want: outcome{
				"Failed", "CancelUnconfirmed",
				"Cancellation was requested because joe wants that, but the plugin could not be reached; the operation may still be running: the plugin is not loaded",
			},
		},
		"refused to cancel": {
			events: []event{wantCancel(0), cancelCalled(1, refused), bytes(at, 1, 2), nothing(5 * time.Minute)},
			want: outcome{
				"Failed", "CancelRefused",
				"Cancellation was requested because joe wants that, but the plugin refused; the operation may still be running: not now",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			op := begun()
			if tc.edit != nil {
				tc.edit(op)
			}
			mem := &operation.Memory{}
			step := play(op, mem, tc.events...)
			if diff := cmp.Diff(tc.want, outcomeOf(op)); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if !op.Ended() || step != (operation.Decision{}) {
				t.Fatalf("Ended() = %v, decision %+v", op.Ended(), step)
			}
			well := tc.want.Phase == "Completed"
			if conditions.IsTrue(op, v1alpha1.ConditionReady) != well || conditions.IsTrue(op, v1alpha1.ConditionSucceeded) != well ||
				conditions.IsTrue(op, v1alpha1.ConditionStalled) == well {
				t.Errorf("conditions are %+v", op.Status.Conditions)
			}
			ended := op.Status.DeepCopy()
			play(op, mem, wantCancel(6*time.Minute), done, failed, cancelCalled(7*time.Minute, nil), nothing(9*time.Hour))
			if diff := cmp.Diff(ended, &op.Status); diff != "" {
				t.Errorf("a finished operation was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestIsStalled_False has operations that must not count as stalled.
func TestIsStalled_False(t *testing.T) {
	t.Parallel()
	const long = 10 * time.Minute
	for name, events := range map[string][]event{
		"progress":                        {bytes(0, 1, 9), bytes(long-1, 2, 9), bytes(2*long-2, 3, 9)},
		"progress, no total":              {bytes(0, 1, 0), bytes(long-1, 2, 0), bytes(2*long-2, 3, 0)},
		"a total appears":                 {bytes(0, 1, 0), bytes(long-1, 1, 9), bytes(2*long-2, 1, 9)},
		"progress at the last moment":     {bytes(0, 1, 9), bytes(long, 2, 9)},
		"no answer":                       {bytes(0, 1, 9), pollFailed(long, away), pollFailed(2*long, busy)},
		"answers again after a long time": {bytes(0, 1, 9), pollFailed(long/2, away), bytes(long, 1, 9), bytes(2*long-1, 1, 9)},
		"never answered":                  {pollFailed(0, away), nothing(long), nothing(2 * long)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			op := begun()
			play(op, &operation.Memory{}, events...)
			if op.Status.Cancel != nil {
				t.Errorf("cancellation was requested: %+v", op.Status.Cancel)
			}
		})
	}
	t.Run("no operator for a while", func(t *testing.T) {
		t.Parallel()
		op := begun()
		play(op, &operation.Memory{}, bytes(0, 1, 9))
		restarted := &operation.Memory{}
		play(op, restarted, bytes(long, 1, 9), bytes(2*long-1, 1, 9))
		if op.Status.Cancel != nil {
			t.Errorf("cancellation was requested: %+v", op.Status.Cancel)
		}
		play(op, restarted, bytes(2*long, 1, 9))
		if op.Status.Cancel == nil || op.Status.Cancel.Cause != v1alpha1.CancelCauseStalled {
			t.Errorf("cancel is %+v, want one because it has stalled since", op.Status.Cancel)
		}
	})
	t.Run("polled less often", func(t *testing.T) {
		t.Parallel()
		op := begun(func(op *v1alpha1.AsyncOperation) { op.Spec.PollInterval.Duration = time.Hour })
		play(op, &operation.Memory{}, bytes(0, 1, 9), bytes(time.Hour, 1, 9))
		if op.Status.Cancel == nil || op.Status.Cancel.Cause != v1alpha1.CancelCauseStalled {
			t.Errorf("cancel is %+v, want one because it has stalled", op.Status.Cancel)
		}
	})
}

// TestRecordProgress_Implausible has implausible answers.
func TestRecordProgress_Implausible(t *testing.T) {
	t.Parallel()
	type progress = v1alpha1.AsyncOperationProgress
	for name, tc := range map[string]struct {
		told item.Progress
		want progress
	}{
		"nothing":         {},
		"negative":        {told: item.Progress{NCompleted: -1, NTotal: math.MinInt64}},
		"more than total": {told: item.Progress{NCompleted: 300, NTotal: 200, OperationUnits: "bytes"}, want: progress{Completed: 300, Total: 200, Units: "bytes", Summary: "100 % (300 of 200 bytes)"}},
		"huge":            {told: item.Progress{NCompleted: math.MaxInt64, NTotal: math.MaxInt64, OperationUnits: strings.Repeat("u", 65)}, want: progress{Completed: math.MaxInt64, Total: math.MaxInt64, Units: strings.Repeat("u", 61) + "…", Summary: "9223372036854775807 of 9223372036854775807 " + strings.Repeat("u", 61) + "…"}},
		"huge bytes":      {told: item.Progress{NCompleted: math.MaxInt64, NTotal: math.MaxInt64, OperationUnits: "B"}, want: progress{Completed: math.MaxInt64, Total: math.MaxInt64, Units: "B", Summary: "100 % (8388607 of 8388607 TiB)"}},
		"cut characters":  {told: item.Progress{OperationUnits: strings.Repeat("é", 40) + "\n"}, want: progress{Units: strings.Repeat("é", 30) + "…"}},
		"several lines":   {told: item.Progress{Description: "a\n\x00b\xff"}, want: progress{Description: "a b\uFFFD"}},
		"too long":        {told: item.Progress{Description: strings.Repeat("é", 1000)}, want: progress{Description: strings.Repeat("é", 510) + "…"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			op := begun()
			play(op, &operation.Memory{}, told(time.Second, tc.told))
			if diff := cmp.Diff(&tc.want, op.Status.Progress); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
			p := op.Status.Progress
			if !utf8.ValidString(p.Units+p.Description+p.Summary) || len(p.Units) > 64 || len(p.Description) > 1024 || len(p.Summary) > 128 {
				t.Errorf("the API does not accept %+v", p)
			}
		})
	}
}

func TestProgressSummary(t *testing.T) {
	t.Parallel()
	const kib, mib, gib = 1 << 10, 1 << 20, 1 << 30
	for want, p := range map[string]item.Progress{
		"":                        {OperationUnits: "objects"},
		"3 of 5 objects":          {NCompleted: 3, NTotal: 5, OperationUnits: "objects"},
		"7 objects":               {NCompleted: 7, OperationUnits: "objects"},
		"7":                       {NCompleted: 7},
		"0 of 5":                  {NTotal: 5},
		"0 % (0 of 5 bytes)":      {NTotal: 5, OperationUnits: "Bytes"},
		"61 % (122 of 200 MiB)":   {NCompleted: 122 * mib, NTotal: 200 * mib, OperationUnits: "bytes"},
		"9 % (0.1 of 1 MiB)":      {NCompleted: 100 * kib, NTotal: mib, OperationUnits: "bytes"},
		"49 % (1.2 of 2.5 GiB)":   {NCompleted: gib + gib/4 - 1, NTotal: 2*gib + gib/2, OperationUnits: "B"},
		"99 % (1023 of 1023 KiB)": {NCompleted: mib - 2, NTotal: mib - 1, OperationUnits: "bytes"},
		"3 KiB":                   {NCompleted: 3 * kib, OperationUnits: "bytes"},
	} {
		op := begun()
		play(op, &operation.Memory{}, told(time.Second, p))
		if got := op.Status.Progress.Summary; got != want {
			t.Errorf("%+v is %q, want %q", p, got, want)
		}
	}
}

func TestRecordProgress_Times(t *testing.T) {
	t.Parallel()
	epoch, future := time.Unix(0, 0), noon.Add(2*time.Hour)
	began, changed := noon.Add(-time.Minute), noon.Add(59*time.Minute)
	op, mem := begun(), &operation.Memory{}
	play(op, mem, told(1, item.Progress{Started: epoch, Updated: future}))
	if op.Status.StartTimestamp != nil || op.Status.UpdateTimestamp != nil {
		t.Errorf("implausible times are recorded: %s, %s", op.Status.StartTimestamp, op.Status.UpdateTimestamp)
	}
	play(op, mem, told(2, item.Progress{Started: began, Updated: changed}), told(3, item.Progress{Started: epoch, Updated: future}), told(4, item.Progress{}))
	if !op.Status.StartTimestamp.Time.Equal(began) || !op.Status.UpdateTimestamp.Time.Equal(changed) {
		t.Errorf("times are %s and %s, want %s and %s", op.Status.StartTimestamp, op.Status.UpdateTimestamp, began, changed)
	}
	if !op.Status.LastPollTimestamp.Time.Equal(noon.Add(4)) || !op.Status.LastProgressTimestamp.Time.Equal(noon.Add(1)) {
		t.Errorf("last poll at %s, last progress at %s", op.Status.LastPollTimestamp, op.Status.LastProgressTimestamp)
	}
}

// TestRecordProgress_Warning checks that only a completed operation without an error has a warning.
func TestRecordProgress_Warning(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		progress item.Progress
		want     string
	}{
		"completed": {progress: item.Progress{Completed: true, Warning: "taken\nwithin 2s"}, want: "taken within 2s"},
		"running":   {progress: item.Progress{Warning: "taken within 2s"}},
		"failed":    {progress: item.Progress{Completed: true, Err: "no space", Warning: "taken within 2s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			op, mem := begun(), &operation.Memory{}
			play(op, mem, told(time.Second, tc.progress))
			if got := op.Status.Progress.Warning; got != tc.want {
				t.Errorf("the warning is %q, want %q", got, tc.want)
			}
		})
	}
}

// TestRecordDataCaptured checks from when an operation counts as having captured its data, and that
// this is written at once: an application may be frozen until then.
func TestRecordDataCaptured(t *testing.T) {
	t.Parallel()
	captured, running := item.Progress{DataCaptured: true}, item.Progress{NCompleted: 1, NTotal: 100}
	for name, tc := range map[string]struct {
		events []event
		want   time.Duration // negative: never
	}{
		"not yet":                        {events: []event{told(time.Second, running)}, want: -1},
		"reported":                       {events: []event{told(time.Second, running), told(2*time.Second, captured), told(3*time.Second, captured)}, want: 2 * time.Second},
		"it stays":                       {events: []event{told(time.Second, captured), told(2*time.Second, running)}, want: time.Second},
		"completed":                      {events: []event{told(time.Second, item.Progress{Completed: true})}, want: time.Second},
		"failed":                         {events: []event{told(time.Second, item.Progress{Completed: true, Err: "no space", DataCaptured: true})}, want: -1},
		"captured, and failed later":     {events: []event{told(time.Second, captured), told(2*time.Second, item.Progress{Completed: true, Err: "no space"})}, want: time.Second},
		"canceled":                       {events: []event{wantCancel(time.Second), told(2*time.Second, item.Progress{Completed: true, Cancelled: true})}, want: -1},
		"captured while it is cancelled": {events: []event{wantCancel(time.Second), told(2*time.Second, captured)}, want: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			op, mem := begun(), &operation.Memory{}
			play(op, mem, tc.events...)
			got := time.Duration(-1)
			if at := op.Status.DataCapturedTimestamp; at != nil {
				got = at.Sub(noon)
			}
			if got != tc.want {
				t.Errorf("captured after %s, want %s", got, tc.want)
			}
		})
	}
	op, mem := begun(), &operation.Memory{}
	play(op, mem, told(time.Second, running))
	if step := machine().Decide(op, mem, told(2*time.Second, captured).seen, noon.Add(2*time.Second)); step.Write != operation.RequiredWrite {
		t.Errorf("the write is %v, want it to be required", step.Write)
	}
	mem.RecordWritten(&op.Status)
	if step := machine().Decide(op, mem, told(3*time.Second, captured).seen, noon.Add(3*time.Second)); step.Write != operation.NoWrite {
		t.Errorf("it is written again: %v", step.Write)
	}
}
