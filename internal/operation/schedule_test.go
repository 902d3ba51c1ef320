// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/operation"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// asks polls whenever the Machine decides so, always with the same answer, and returns the
// times of the polls in seconds after noon.
func asks(op *v1alpha1.AsyncOperation, m *operation.Machine, n int, poll operation.PollResult) []float64 {
	var mem operation.Memory
	var at []float64
	now := noon
	for seen := (operation.Observed{}); len(at) < n; {
		step := m.Decide(op, &mem, seen, now)
		seen = operation.Observed{}
		if step.Write != operation.NoWrite {
			mem.RecordWritten(&op.Status)
			continue
		}
		if step.Poll {
			at = append(at, now.Sub(noon).Seconds())
			seen.Poll = &poll
			continue
		}
		now = now.Add(step.RequeueAfter)
	}
	return at
}

func TestDecide_PollSchedule(t *testing.T) {
	t.Parallel()
	stays := func(op *v1alpha1.AsyncOperation) {
		op.Spec.Timeout.Duration = 24 * time.Hour
		op.Spec.StallTimeout = nil
	}
	fast := func(op *v1alpha1.AsyncOperation) { stays(op); op.Spec.PollInterval.Duration = 100 * time.Millisecond }
	captured := operation.PollResult{Progress: item.Progress{DataCaptured: true}}
	slow := func(op *v1alpha1.AsyncOperation) { stays(op); op.Spec.PollInterval.Duration = 2 * time.Minute }
	for name, tc := range map[string]struct {
		edit func(*v1alpha1.AsyncOperation)
		poll operation.PollResult
		want []float64
	}{
		"answered":           {edit: stays, want: []float64{0.5, 1.5, 3.5, 7.5, 15.5, 25.5, 35.5}},
		"answered, fast":     {edit: fast, want: []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7}},
		"answered, slow":     {edit: slow, want: []float64{0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 63.5, 127.5, 247.5}},
		"captured":           {edit: stays, poll: captured, want: []float64{0.5, 1.125, 1.90625, 2.8828125}},
		"captured, fast":     {edit: fast, poll: captured, want: []float64{0.1, 0.225, 0.38125, 0.5765625}},
		"not answered":       {edit: stays, poll: operation.PollResult{Failure: &away}, want: []float64{0.5, 10.5, 30.5, 70.5, 130.5, 190.5}},
		"not answered, fast": {edit: fast, poll: operation.PollResult{Failure: &busy}, want: []float64{0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 162.4}},
		"not answered, slow": {edit: slow, poll: operation.PollResult{Failure: &busy}, want: []float64{0.5, 120.5, 240.5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := asks(begun(tc.edit), machine(), len(tc.want), tc.poll)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("polls (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("captured long ago", func(t *testing.T) {
		t.Parallel()
		for name, tc := range map[string]struct {
			edit func(*v1alpha1.AsyncOperation)
			want float64
		}{"fast": {fast, 5}, "slow": {slow, 120}} {
			polls := asks(begun(tc.edit), machine(), 60, captured)
			if got := math.Round(polls[59] - polls[58]); got != tc.want {
				t.Errorf("%s: polled every %g s, want %g", name, got, tc.want)
			}
		}
	})
	t.Run("spread", func(t *testing.T) {
		t.Parallel()
		early := asks(begun(stays), &operation.Machine{Jitter: func() float64 { return 0 }}, 50, operation.PollResult{})
		late := asks(begun(stays), &operation.Machine{Jitter: func() float64 { return 1 }}, 50, operation.PollResult{})
		if e, l := math.Round(early[49]-early[48]), math.Round(late[49]-late[48]); e != 9 || l != 11 {
			t.Errorf("polled every %g s to %g s, want 9 to 11", e, l)
		}
	})
	t.Run("after a restart", func(t *testing.T) {
		t.Parallel()
		op := begun(stays)
		play(op, &operation.Memory{}, bytes(time.Minute, 1, 2))
		step := machine().Decide(op, &operation.Memory{}, operation.Observed{}, noon.Add(time.Hour))
		if !step.Poll || step.Write != operation.NoWrite {
			t.Errorf("%+v, want a poll at once and no write", step)
		}
	})
}

// TestWriteUrgency checks which statuses are written, and which wait.
func TestWriteUrgency(t *testing.T) {
	t.Parallel()
	objects := func(at time.Duration, n int64) event {
		return told(at, item.Progress{NCompleted: n, OperationUnits: "objects"})
	}
	const second = time.Second
	for name, tc := range map[string]struct {
		before []event
		event  event
		want   operation.WriteUrgency
	}{
		"new":                         {event: nothing(second), want: operation.NoWrite},
		"new for a while":             {event: nothing(5 * second), want: operation.OptionalWrite},
		"first answer":                {event: bytes(second, 0, 100), want: operation.OptionalWrite},
		"first failure":               {event: pollFailed(second, away), want: operation.OptionalWrite},
		"ended at once":               {event: told(second, item.Progress{Completed: true}), want: operation.RequiredWrite},
		"no progress":                 {before: []event{bytes(second, 50, 100)}, event: bytes(11*second, 50, 100), want: operation.NoWrite},
		"no progress for long":        {before: []event{bytes(second, 50, 100)}, event: bytes(time.Minute, 50, 100), want: operation.NoWrite},
		"little progress":             {before: []event{bytes(second, 50, 100)}, event: bytes(11*second, 54, 100), want: operation.NoWrite},
		"little progress, after long": {before: []event{bytes(second, 50, 100)}, event: bytes(31*second, 51, 100), want: operation.OptionalWrite},
		"5 % more":                    {before: []event{bytes(second, 50, 100)}, event: bytes(2*second, 55, 100), want: operation.OptionalWrite},
		"5 % less":                    {before: []event{bytes(second, 50, 100)}, event: bytes(2*second, 45, 100), want: operation.OptionalWrite},
		"5 % in small steps":          {before: []event{bytes(second, 50, 100), bytes(2*second, 53, 100)}, event: bytes(3*second, 55, 100), want: operation.OptionalWrite},
		"uncounted, soon":             {before: []event{objects(second, 50)}, event: objects(10*second, 90), want: operation.NoWrite},
		"uncounted, later":            {before: []event{objects(second, 50)}, event: objects(11*second, 51), want: operation.OptionalWrite},
		"failure":                     {before: []event{bytes(second, 50, 100)}, event: pollFailed(2*second, away), want: operation.OptionalWrite},
		"another failure":             {before: []event{bytes(second, 1, 9), pollFailed(2*second, away)}, event: pollFailed(12*second, away), want: operation.NoWrite},
		"another failure, after long": {before: []event{bytes(second, 1, 9), pollFailed(2*second, away)}, event: pollFailed(32*second, away), want: operation.OptionalWrite},
		"answers again":               {before: []event{bytes(second, 1, 9), pollFailed(2*second, away)}, event: bytes(3*second, 1, 9), want: operation.OptionalWrite},
		"timed out":                   {before: []event{bytes(second, 1, 9)}, event: nothing(4 * time.Hour), want: operation.RequiredWrite},
		"cancel":                      {before: []event{bytes(second, 1, 9)}, event: wantCancel(2 * second), want: operation.NoWrite},
		"cancel for a while":          {before: []event{bytes(second, 1, 9), wantCancel(2 * second)}, event: nothing(7 * second), want: operation.OptionalWrite},
		"canceled":                    {before: []event{wantCancel(second)}, event: told(2*second, item.Progress{Completed: true, Cancelled: true}), want: operation.RequiredWrite},
		"acknowledged":                {before: []event{wantCancel(second)}, event: cancelCalled(2*second, nil), want: operation.NoWrite},
		"acknowledged for a while":    {before: []event{wantCancel(second), cancelCalled(2*second, nil)}, event: nothing(6 * second), want: operation.OptionalWrite},
		"clock set back":              {before: []event{wantCancel(time.Hour)}, event: cancelCalled(2*second, nil), want: operation.OptionalWrite},
		"refused for a while":         {before: []event{wantCancel(second)}, event: cancelCalled(6*second, &busy), want: operation.OptionalWrite},
		"ended":                       {before: []event{bytes(second, 1, 9)}, event: told(2*second, item.Progress{Completed: true}), want: operation.RequiredWrite},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			op, mem := begun(), &operation.Memory{}
			play(op, mem, tc.before...)
			if tc.event.edit != nil {
				tc.event.edit(op)
			}
			now := noon.Add(tc.event.at)
			if got := machine().Decide(op, mem, tc.event.seen, now).Write; got != tc.want {
				t.Errorf("urgency is %d, want %d", got, tc.want)
			}
			if got := machine().Decide(op, mem, operation.Observed{}, now).Write; got != tc.want {
				t.Errorf("decided again before the write, the urgency is %d, want %d", got, tc.want)
			}
		})
	}
}
