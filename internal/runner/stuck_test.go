// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel/internal/runner"
)

const grace = time.Minute

// stuck starts a task that ignores its context until it is released.
func (f *fixture) stuck(t *testing.T, id string) (release chan struct{}) {
	t.Helper()
	release = make(chan struct{})
	if !f.EnsureStarted(id, owner, func(context.Context) (string, error) {
		<-release
		return "late", nil
	}) {
		t.Fatal("EnsureStarted did not start the task")
	}
	synctest.Wait()
	return release
}

func TestCancel_LeavesBehindWhatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.GracePeriod = grace
		f.start(t)
		release := f.stuck(t, "a")
		f.Cancel("a", errWork)
		time.Sleep(grace - time.Second)
		if outcome, _ := f.LookupOutcome("a"); outcome != nil {
			t.Fatalf("the task was abandoned too early: %+v", outcome)
		}
		time.Sleep(2 * time.Second)
		got := f.ended(t, "a")
		if !errors.Is(got.Err, runner.ErrStuck) || !errors.Is(got.Cause, errWork) || got.Value != "" {
			t.Errorf("outcome %+v, want an abandoned task", got)
		}
		if len(f.woken) != 1 || f.NumStuckTasks() != 1 {
			t.Errorf("the owner was enqueued %d times, %d tasks are abandoned; want once, and 1", len(f.woken), f.NumStuckTasks())
		}

		// The ID can be used again, and results in an error until the first task ends.
		f.Forget("a")
		f.EnsureStarted("a", owner, func(context.Context) (string, error) { return "second", nil })
		if got := f.ended(t, "a"); !errors.Is(got.Err, runner.ErrStuck) {
			t.Errorf("outcome %+v of a second task while the first runs, want that it was not started", got)
		}
		f.Forget("a")
		close(release)
		synctest.Wait()
		if _, known := f.LookupOutcome("a"); known || f.NumStuckTasks() != 0 || len(f.woken) != 2 {
			t.Errorf("the late result counts: known %v, %d abandoned, enqueued %d times", known, f.NumStuckTasks(), len(f.woken))
		}
		f.EnsureStarted("a", owner, func(context.Context) (string, error) { return "third", nil })
		if got := f.ended(t, "a"); got.Value != "third" || got.Err != nil {
			t.Errorf("outcome %+v, want that of the third task", got)
		}
	})
}

func TestCancel_EndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.GracePeriod = grace
		f.start(t)
		f.EnsureStarted("a", owner, func(ctx context.Context) (string, error) {
			<-ctx.Done()
			time.Sleep(grace / 2)
			return "half", errWork
		})
		f.Cancel("a", errors.New("stop"))
		time.Sleep(2 * grace)
		if got := f.ended(t, "a"); got.Value != "half" || !errors.Is(got.Err, errWork) || len(f.woken) != 1 {
			t.Errorf("outcome %+v, enqueued %d times; want its own outcome once", got, len(f.woken))
		}
	})
}

func TestCancelAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.start(t)
		for _, id := range []string{"late", "early"} {
			f.EnsureStarted(id, owner, func(ctx context.Context) (string, error) {
				<-ctx.Done()
				return "", context.Cause(ctx)
			})
		}
		early, late := errors.New("early"), errors.New("late")
		f.CancelAfter("early", time.Hour, late)
		f.CancelAfter("early", time.Minute, early)
		f.CancelAfter("early", time.Hour, late)
		f.CancelAfter("late", time.Hour, late)
		f.CancelAfter("unknown", time.Second, late)
		time.Sleep(time.Minute)
		if got := f.ended(t, "early"); !errors.Is(got.Err, early) {
			t.Errorf("error %v, want that of the earliest time", got.Err)
		}
		if age, running := f.RunningTime("late"); !running || age != time.Minute {
			t.Errorf("the other task is %s old, running: %v; want a minute", age, running)
		}
		time.Sleep(time.Hour)
		if got := f.ended(t, "late"); !errors.Is(got.Err, late) {
			t.Errorf("error %v, want %v", got.Err, late)
		}
	})
}

// TestStart_DoesNotWaitForEver: Start returns although a task does not end, abandoned or not.
func TestStart_DoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.GracePeriod = grace
		f.start(t)
		release, left := f.stuck(t, "a"), f.stuck(t, "b")
		f.Cancel("b", errWork)
		time.Sleep(2 * grace)
		f.stop()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if !f.stopped.Load() {
			t.Error("Start waits for a task that does not end")
		}
		close(release)
		close(left)
		synctest.Wait()
	})
}

func TestStart_IsNotHeldByWhatWasLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.GracePeriod = grace
		f.start(t)
		release := f.stuck(t, "a")
		f.Cancel("a", errWork)
		time.Sleep(2 * grace)
		f.stop()
		synctest.Wait()
		if !f.stopped.Load() {
			t.Error("Start waits for an abandoned task")
		}
		close(release)
		synctest.Wait()
	})
}

func TestOutcome_HasNoStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.start(t)
		f.EnsureStarted("a", owner, func(context.Context) (string, error) { panic("odd object") })
		if got := f.ended(t, "a"); got.Err == nil || strings.Contains(got.Err.Error(), "goroutine") || !strings.Contains(got.Err.Error(), "odd object") {
			t.Errorf("error %v, want the panic without its stack", got.Err)
		}
	})
}
