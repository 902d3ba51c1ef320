// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/operation"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// world is one operation, its plugin, the API server, and a sequence of operators.
type world struct {
	t      *testing.T
	random *rand.Rand
	m      *operation.Machine
	now    time.Time
	// stored is what the API server has; op and mem are the operator's.
	stored, op *v1alpha1.AsyncOperation
	mem        *operation.Memory
	// polling and cancelling are when a call began; zero if none is in flight.
	polling, cancelling time.Time

	// What happened to the operation.
	completedWell, completed, confirmed bool
	unknown                             int
	cancelled                           bool // Cancel was called
	// outage is how long writes failed in total.
	outage time.Duration
	// refuses means that the plugin never cancels.
	refuses bool
	// queued is until when a call of Cancel waits for others, and waited how long in total.
	queued time.Time
	waited time.Duration
	// forgets is when the plugin forgets the operation.
	forgets time.Time
}

const (
	modelTimeout = 10 * time.Minute
	modelConfirm = 2 * time.Minute
	callTimeout  = 30 * time.Second
)

func newWorld(t *testing.T, random *rand.Rand) *world {
	t.Helper()
	w := &world{
		t: t, random: random, now: noon.Add(time.Duration(random.Int64N(int64(time.Second)))),
		m: &operation.Machine{ConfirmTimeout: modelConfirm, Jitter: random.Float64},
	}
	w.stored = begun(func(op *v1alpha1.AsyncOperation) {
		op.Spec.Timeout.Duration = modelTimeout
		op.Spec.StallTimeout = &metav1.Duration{Duration: 3 * time.Minute}
		if random.IntN(3) == 0 {
			op.Spec.StallTimeout = nil
		}
	})
	if w.forgets = w.now.Add(24 * time.Hour); random.IntN(10) == 0 {
		w.forgets = w.now.Add(time.Duration(random.Int64N(int64(modelTimeout))))
	}
	w.refuses = random.IntN(10) == 0
	w.restart()
	return w
}

// restart starts an operator from the stored object, with the precision of the API.
func (w *world) restart() {
	data, err := json.Marshal(w.stored)
	if err != nil {
		w.t.Fatal(err)
	}
	w.op = &v1alpha1.AsyncOperation{}
	if err := json.Unmarshal(data, w.op); err != nil {
		w.t.Fatal(err)
	}
	w.mem, w.polling, w.cancelling = &operation.Memory{}, time.Time{}, time.Time{}
}

// failure returns a random failure.
func (w *world) failure() *operation.Failure {
	switch w.random.IntN(4) {
	case 0:
		return &operation.Failure{Answered: true, Text: "busy"}
	case 1:
		return &operation.Failure{Answered: true, Unknown: true, Text: "no such job"}
	default:
		return &operation.Failure{Text: "not loaded"}
	}
}

// poll returns the result of a call of Progress that ends now; nil if none does.
func (w *world) poll() *operation.PollResult {
	late := w.now.Sub(w.polling) >= callTimeout
	switch n := w.random.IntN(100); {
	case n < 20 && !late: // the call hangs
		return nil
	case n < 40 || late || w.now.After(w.forgets):
		failure := w.failure()
		if !late && w.now.After(w.forgets) {
			failure = &operation.Failure{Answered: true, Unknown: true, Text: "never heard of it"}
		}
		if failure.Unknown {
			w.unknown++
		} else if failure.Answered {
			w.unknown = 0
		}
		return &operation.PollResult{Failure: failure}
	}
	w.unknown = 0
	told := item.Progress{
		NCompleted: w.random.Int64N(300) - 20, NTotal: w.random.Int64N(200) - 20, OperationUnits: "bytes",
		Started: time.Unix(w.random.Int64N(4e9), 0), Completed: w.random.IntN(60) == 0, Cancelled: w.random.IntN(4) == 0,
	}
	if w.random.IntN(3) == 0 {
		told.Err = "went wrong"
	}
	if told.Completed {
		w.completed = true
		w.completedWell = w.completedWell || told.Err == "" && !told.Cancelled
		w.confirmed = w.confirmed || told.Cancelled || told.Err != "" && w.cancelled
	}
	return &operation.PollResult{Progress: told}
}

// observe returns what the operator sees now.
func (w *world) observe() operation.Observed {
	var seen operation.Observed
	if !w.cancelling.IsZero() && !w.now.Before(w.queued) && (w.random.IntN(3) > 0 || w.now.Sub(w.cancelling) >= callTimeout) {
		seen.Cancel = &operation.CancelResult{}
		switch {
		case w.refuses:
			seen.Cancel.Failure = &operation.Failure{Answered: true, Text: "no"}
		case w.random.IntN(2) == 0:
			seen.Cancel.Failure = w.failure()
		}
		w.cancelling = time.Time{}
	}
	if !w.polling.IsZero() {
		if seen.Poll = w.poll(); seen.Poll != nil {
			w.polling = time.Time{}
		}
	}
	seen.Polling, seen.Cancelling = !w.polling.IsZero(), !w.cancelling.IsZero()
	seen.CancelQueued = seen.Cancelling && w.now.Before(w.queued)
	return seen
}

// pass is one reconcile of the operator, which may be killed in the middle.
func (w *world) pass() (wait time.Duration) {
	seen := w.observe()
	step := w.m.Decide(w.op, w.mem, seen, w.now)
	if step.Write == operation.RequiredWrite && w.random.IntN(10) == 0 { // the API server is unavailable
		w.outage += time.Second
		return time.Second
	}
	if step.Write == operation.RequiredWrite || step.Write == operation.OptionalWrite && w.random.IntN(2) == 0 {
		w.stored = w.op.DeepCopy()
		if w.random.IntN(50) == 0 { // the operator was killed before it received the response
			w.restart()
			return time.Second
		}
		w.mem.RecordWritten(&w.op.Status)
		step = w.m.Decide(w.op, w.mem, operation.Observed{Polling: seen.Polling, Cancelling: seen.Cancelling, CancelQueued: seen.CancelQueued}, w.now)
	}
	if step.Poll {
		w.polling = w.now
	}
	if step.Cancel {
		w.call()
	}
	if !w.polling.IsZero() || !w.cancelling.IsZero() {
		return time.Duration(w.random.Int64N(int64(5 * time.Second)))
	}
	return max(step.RequeueAfter, time.Millisecond)
}

// call calls Cancel.
func (w *world) call() {
	if w.stored.Status.Cancel == nil && w.stored.Spec.DesiredState != v1alpha1.DesiredStateCancel || w.stored.Ended() {
		w.t.Fatalf("Cancel was called before the request was stored: %+v", w.stored.Status)
	}
	if w.cancelled = true; !w.cancelling.IsZero() {
		w.t.Fatal("two concurrent calls of Cancel")
	}
	w.cancelling = w.now
	if w.random.IntN(20) == 0 {
		wait := time.Duration(w.random.Int64N(int64(2 * modelConfirm)))
		w.queued, w.waited = w.now.Add(wait), w.waited+wait+modelConfirm
	}
}

// live runs an operation until its outcome is stored, and returns how many reconciles that
// took.
func (w *world) live() (passes int) {
	wanted := w.now.Add(time.Duration(w.random.Int64N(int64(2 * modelTimeout))))
	// One call, the back-off between calls, and the first answer.
	slack := callTimeout + 10*time.Second + 30*time.Second
	for cause := v1alpha1.CancelCause(""); !w.stored.Ended(); passes++ {
		if w.now.After(wanted) {
			w.stored.Spec.DesiredState, w.op.Spec.DesiredState = v1alpha1.DesiredStateCancel, v1alpha1.DesiredStateCancel
		}
		if w.random.IntN(100) == 0 {
			w.restart()
		}
		w.now = w.now.Add(w.pass())
		if cancel := w.stored.Status.Cancel; cancel != nil {
			if cause != "" && cancel.Cause != cause {
				w.t.Fatalf("the cause changed from %s to %s", cause, cancel.Cause)
			}
			cause = cancel.Cause
		} else if cause != "" {
			w.t.Fatal("a request to cancel was lost")
		}
		if took := w.now.Sub(noon); took > modelTimeout+modelConfirm+w.outage+w.waited+2*slack {
			w.t.Fatalf("the operation has not ended after %s: %+v", took, w.stored.Status)
		}
	}
	return passes
}

// judge compares an outcome with what happened.
func (w *world) judge() {
	status := w.stored.Status
	reason := conditions.Get(w.stored, v1alpha1.ConditionSucceeded).Reason
	switch {
	case status.Phase == v1alpha1.AsyncOperationPhaseCompleted && !w.completedWell,
		status.Phase == v1alpha1.AsyncOperationPhaseCancelled && (!w.confirmed || status.Cancel == nil || status.Cancel.Cause != v1alpha1.CancelCauseRequested),
		reason == v1alpha1.ReasonOperationFailed && !w.completed,
		reason == v1alpha1.ReasonOperationLost && w.unknown < 3,
		reason == v1alpha1.ReasonTimedOut && (!w.confirmed || status.Cancel.Cause != v1alpha1.CancelCauseTimedOut),
		reason == v1alpha1.ReasonOperationStalled && (!w.confirmed || status.Cancel.Cause != v1alpha1.CancelCauseStalled),
		reason == v1alpha1.ReasonCancelRefused && status.Cancel.Answer != v1alpha1.CancelAnswerRefused,
		reason == v1alpha1.ReasonCancelUnconfirmed && (w.now.Before(status.Cancel.Deadline.Time) || !w.cancelled):
		w.t.Fatalf("after %s the operation ended as %s, which does not match %+v", w.now.Sub(noon), reason, w)
	}
	w.op = w.stored.DeepCopy()
	w.mem = &operation.Memory{}
	for range 5 {
		w.now = w.now.Add(time.Minute)
		step := w.m.Decide(w.op, w.mem, operation.Observed{Poll: w.poll(), Cancel: &operation.CancelResult{}}, w.now)
		if step != (operation.Decision{}) {
			w.t.Fatalf("the operation has ended, but the decision is %+v", step)
		}
	}
	if !equality.Semantic.DeepEqual(w.stored.Status, w.op.Status) {
		w.t.Fatalf("a finished operation was changed:\n%s", cmp.Diff(w.stored.Status, w.op.Status))
	}
}

// TestMachine_RandomModel runs operations with plugins, operators and API servers that fail at
// random times.
func TestMachine_RandomModel(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	ends := map[string]int{}
	for passes := 0; passes < 200_000; {
		w := newWorld(t, random)
		passes += w.live()
		w.judge()
		ends[conditions.Get(w.stored, v1alpha1.ConditionSucceeded).Reason]++
	}
	t.Log(ends)
	for _, reason := range []string{
		v1alpha1.ReasonCompleted, v1alpha1.ReasonCancelled, v1alpha1.ReasonOperationFailed, v1alpha1.ReasonTimedOut,
		v1alpha1.ReasonOperationStalled, v1alpha1.ReasonOperationLost, v1alpha1.ReasonCancelRefused, v1alpha1.ReasonCancelUnconfirmed,
	} {
		if ends[reason] == 0 {
			t.Errorf("no operation ended as %s: the model does not reach it", reason)
		}
	}
}
