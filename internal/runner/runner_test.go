// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package runner_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/runner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var owner = types.NamespacedName{Namespace: "ns", Name: "nightly"}

// fixture is a runner with its wake-ups. It is used in a synctest bubble, where Wait returns once
// every goroutine is durably blocked.
type fixture struct {
	*runner.Runner[string]
	woken   chan types.NamespacedName
	stop    context.CancelFunc
	stopped atomic.Bool
}

func newFixture() *fixture {
	f := &fixture{woken: make(chan types.NamespacedName, 10), stop: func() {}}
	f.Runner = runner.New[string](func(n types.NamespacedName) { f.woken <- n })
	return f
}

// start starts the runner, which ends with stop or at the end of the test.
func (f *fixture) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f.stop = cancel
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f.Start(ctx); err != nil {
			t.Errorf("Start: %v", err)
		}
		f.stopped.Store(true)
	}()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
}

// ended returns the outcome of a task that must have ended.
func (f *fixture) ended(t *testing.T, id string) runner.Outcome[string] {
	t.Helper()
	synctest.Wait()
	outcome, known := f.LookupOutcome(id)
	if !known || outcome == nil {
		t.Fatalf("task %q: known %v, outcome %v; want one that has ended", id, known, outcome)
	}
	return *outcome
}

var errWork = errors.New("the disk is full")

func TestOutcome(t *testing.T) {
	for name, tc := range map[string]struct {
		fn        func(context.Context) (string, error)
		wantValue string
		wantErr   error
		wantText  string
	}{
		"value": {
			fn:        func(context.Context) (string, error) { return "done", nil },
			wantValue: "done",
		},
		"value and error": {
			fn:        func(context.Context) (string, error) { return "half", errWork },
			wantValue: "half",
			wantErr:   errWork,
		},
		"panic": {
			fn:       func(context.Context) (string, error) { panic("nil map of " + "widgets") },
			wantText: "nil map of widgets",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture()
				f.start(t)
				if !f.EnsureStarted("a", owner, tc.fn) {
					t.Fatal("EnsureStarted did not start the task")
				}
				got := f.ended(t, "a")
				if got.Value != tc.wantValue {
					t.Errorf("value %q, want %q", got.Value, tc.wantValue)
				}
				switch {
				case tc.wantText != "":
					if got.Err == nil || !strings.Contains(got.Err.Error(), tc.wantText) {
						t.Errorf("error %v, want one with %q", got.Err, tc.wantText)
					}
				case !errors.Is(got.Err, tc.wantErr):
					t.Errorf("error %v, want %v", got.Err, tc.wantErr)
				}
				if len(f.woken) != 1 || <-f.woken != owner {
					t.Errorf("the owner was not enqueued exactly once")
				}
			})
		})
	}
}

func TestEnsureStarted_Repeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.start(t)
		var calls atomic.Int32
		release := make(chan struct{})
		work := func(context.Context) (string, error) {
			calls.Add(1)
			<-release
			return "done", nil
		}
		for range 3 {
			if !f.EnsureStarted("a", owner, work) {
				t.Error("EnsureStarted returned false")
			}
		}
		synctest.Wait()
		if outcome, known := f.LookupOutcome("a"); !known || outcome != nil {
			t.Errorf("while it runs: known %v, outcome %v; want known and none", known, outcome)
		}
		close(release)
		f.ended(t, "a")
		if !f.EnsureStarted("a", owner, work) {
			t.Error("EnsureStarted does not know the task that ended")
		}
		synctest.Wait()
		if n := calls.Load(); n != 1 {
			t.Errorf("the task ran %d times, want once", n)
		}
		// Another ID is another task.
		f.EnsureStarted("b", owner, work)
		f.ended(t, "b")
		if n := calls.Load(); n != 2 {
			t.Errorf("%d calls after a second ID, want 2", n)
		}
	})
}

func TestCancel_Cause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.start(t)
		wait := func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		}
		f.EnsureStarted("a", owner, wait)
		f.EnsureStarted("b", owner, wait)
		f.Cancel("a", errWork)
		f.Cancel("a", errors.New("later"))
		f.Cancel("unknown", errWork)
		if got := f.ended(t, "a"); !errors.Is(got.Err, errWork) {
			t.Errorf("error %v, want the first cause", got.Err)
		}
		if outcome, known := f.LookupOutcome("b"); !known || outcome != nil {
			t.Error("canceling one task ended another")
		}
	})
}

func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.start(t)
		var calls atomic.Int32
		release := make(chan struct{})
		work := func(context.Context) (string, error) {
			calls.Add(1)
			<-release
			return "", nil
		}
		f.EnsureStarted("a", owner, work)
		f.Forget("a")
		f.Forget("unknown")
		if _, known := f.LookupOutcome("a"); !known {
			t.Fatal("a running task was forgotten")
		}
		close(release)
		f.ended(t, "a")
		f.Forget("a")
		if _, known := f.LookupOutcome("a"); known {
			t.Error("the task is still known")
		}
		f.EnsureStarted("a", owner, work)
		f.ended(t, "a")
		if n := calls.Load(); n != 2 {
			t.Errorf("%d calls, want 2: a forgotten task can be started again", n)
		}
	})
}

func TestEnsureStarted_NotRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		work := func(context.Context) (string, error) {
			t.Error("the task ran")
			return "", nil
		}
		if f.EnsureStarted("early", owner, work) {
			t.Error("EnsureStarted returned true before Start")
		}
		f.start(t)
		f.stop()
		// Not only once Start has noticed.
		if f.EnsureStarted("late", owner, work) {
			t.Error("EnsureStarted returned true after the end")
		}
		synctest.Wait()
		if f.EnsureStarted("later", owner, work) {
			t.Error("EnsureStarted returned true after Start returned")
		}
		for _, id := range []string{"early", "late", "later"} {
			if _, known := f.LookupOutcome(id); known {
				t.Errorf("task %q is known and will never end", id)
			}
		}
	})
}

// TestStart_WaitForTasks checks the outcomes: a late success is kept, and a task that failed
// because it was interrupted has no outcome, which could be mistaken for a failure.
func TestStart_WaitForTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.start(t)
		release := make(chan struct{})
		f.EnsureStarted("slow", owner, func(ctx context.Context) (string, error) {
			<-ctx.Done()
			<-release
			return "done all the same", nil
		})
		f.EnsureStarted("interrupted", owner, func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		f.stop()
		synctest.Wait()
		if f.stopped.Load() {
			t.Error("Start returned while a task was running")
		}
		close(release)
		got := f.ended(t, "slow")
		if got.Err != nil || got.Value != "done all the same" {
			t.Errorf("outcome %+v, want the value", got)
		}
		if outcome, known := f.LookupOutcome("interrupted"); !known || outcome != nil {
			t.Errorf("an interrupted task is known %v with the outcome %+v; want known without one", known, outcome)
		}
		if !f.stopped.Load() {
			t.Error("Start continues after the last task ended")
		}
	})
}
