// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/intervention"
)

// TestDecide_RandomWalk runs thousands of HookRuns through random events (answers,
// restarts, cancellation, at random times) and checks the invariants after every
// reconcile.
func TestDecide_RandomWalk(t *testing.T) {
	t.Parallel()
	ends := map[v1alpha1.HookRunPhase]int{}
	for seed := range uint64(600) {
		w := newWalk(t, seed)
		for range 60 {
			w.pass()
			w.happen()
		}
		if w.t.Failed() {
			t.Fatalf("seed %d; spec %+v", seed, w.run.Spec)
		}
		if w.run.Status.CompletionTimestamp != nil {
			ends[w.run.Status.Phase]++
		}
	}
	for _, phase := range []v1alpha1.HookRunPhase{completed, failedPhase, cancelled, skipped} {
		if ends[phase] < 10 {
			t.Errorf("only %d HookRuns ended as %s, too few to test that outcome", ends[phase], phase)
		}
	}
}

// walk is one random walk: the object as the API server has it, and the one call
// that runs in this process.
type walk struct {
	t     testing.TB
	rand  *rand.Rand
	run   *v1alpha1.HookRun
	now   time.Time
	known bool
	ended *callOutcome
	last  decision
	// requests counts the interventions of users.
	requests int
}

func newWalk(t testing.TB, seed uint64) *walk {
	t.Helper()
	w := &walk{t: t, rand: rand.New(rand.NewPCG(seed, 1)), now: start.Add(time.Duration(seed%1000) * time.Millisecond)}
	w.run = build(wants(waits), retries(int32(w.rand.IntN(4))))
	w.run.Spec.Timeout = metav1.Duration{Duration: time.Duration(1+w.rand.IntN(20000)) * time.Millisecond}
	for _, edit := range []func(*v1alpha1.HookRun){owed, ignoring, failOnInterruption, postAction} {
		if w.rand.IntN(3) == 0 {
			edit(w.run)
		}
	}
	return w
}

// pass is one Reconcile, without its API calls.
func (w *walk) pass() {
	w.t.Helper()
	before := w.run.DeepCopy()
	next := decide(w.run, observed{inFlight: w.known, result: w.ended, redact: redactPassword}, w.now)
	changed := !equality.Semantic.DeepEqual(before.Status, w.run.Status)
	w.checkPass(before, next, changed)
	if w.ended != nil {
		w.known, w.ended = false, nil
	}
	if next.command == startCall {
		w.known = true
	}
	w.last = next
	w.run = stored(w.t, w.run)
}

func (w *walk) checkPass(before *v1alpha1.HookRun, next decision, changed bool) {
	w.t.Helper()
	s := &w.run.Status
	must := func(ok bool, what string) {
		if !ok {
			w.t.Errorf("%s\nnext %+v\nbefore %+v\nafter  %+v", what, next, before.Status, *s)
		}
	}
	requested := intervention.UnhandledRequest(before) != nil
	must(before.Status.CompletionTimestamp == nil || requested || (!changed && next == decision{}), "a finished HookRun changed without a request")
	accepted := s.LastIntervention != nil && s.LastIntervention.Outcome == v1alpha1.HookInterventionAccepted
	must(before.Status.CompletionTimestamp == nil || s.CompletionTimestamp != nil || (accepted && next.command == startCall && before.Status.Phase == failedPhase),
		"a finished HookRun was opened again without an accepted retry of a failure")
	must(next.command != startCall || (changed && openAttempt(w.run) != nil), "an unrecorded call is made")
	must(next.command != startCall || !w.known || w.ended != nil, "a call is made while another one runs")
	must(next.command != startCall || w.run.Spec.DesiredState == v1alpha1.HookDesiredStateRun || (w.run.Spec.Owed && before.Status.StartTimestamp != nil), "a call is made without a request to run")
	must(len(s.Attempts) <= maxRecordedAttempts, "the status lists too many attempts")
	for i, a := range s.Attempts {
		must(a.Number == s.Attempt-int32(len(s.Attempts)-1-i), "the attempts have wrong numbers")
		must(i == len(s.Attempts)-1 || a.CompletionTimestamp != nil, "an earlier attempt is open")
		must(!a.Deadline.Time.Before(a.StartTimestamp.Add(w.run.Spec.Timeout.Duration)), "an attempt has less than its timeout")
	}
	must(w.run.Spec.Owed || numFailedAttempts(w.run) <= w.run.Spec.Retries+1, "the action was retried too often")
	if s.CompletionTimestamp == nil {
		idle := next.command != startCall && next.command != cancelCall && next.requeueAfter <= 0 && (!w.known || w.ended != nil)
		must(!idle || w.run.Spec.DesiredState == waits, "the HookRun waits without a reason")
		must(!intervention.IsSkipping(w.run) || next.command == cancelCall || changed, "a skipped HookRun continues")
		return
	}
	must(openAttempt(w.run) == nil && s.NextCallTimestamp == nil, "the HookRun finished with an open attempt or call")
	if w.run.Spec.Owed && s.StartTimestamp != nil {
		must((s.Phase == completed && s.Conditions[0].Reason == v1alpha1.ReasonCompleted) || intervention.IsSkipped(w.run), "owed clean-up finished without success")
	}
}

// happen simulates what happens between two reconciles.
func (w *walk) happen() {
	advance := time.Duration(w.rand.IntN(3000)) * time.Millisecond
	if w.last.requeueAfter > 0 && w.rand.IntN(3) > 0 {
		advance = w.last.requeueAfter
	}
	w.now = w.now.Add(advance)
	switch n := w.rand.IntN(20); {
	case n == 0:
		w.known, w.ended = false, nil // the operator is killed and another one starts
	case n == 1 && w.run.Spec.DesiredState != cancel:
		w.run.Spec.DesiredState = cancel
	case n == 2:
		w.requests++
		what := []v1alpha1.HookInterventionType{v1alpha1.HookInterventionRetry, v1alpha1.HookInterventionRetry, v1alpha1.HookInterventionSkip}[w.rand.IntN(3)]
		requests(strconv.Itoa(w.requests), what)(w.run)
	case n < 12 && w.run.Spec.DesiredState == waits:
		w.run.Spec.DesiredState = v1alpha1.HookDesiredStateRun
	}
	if w.known && w.rand.IntN(2) == 0 {
		all := []callOutcome{done, notDone, broken, unreachable, late, invalid, cut, panicked}
		w.ended = &all[w.rand.IntN(len(all))]
	}
}

// stored returns the object as it is read back from the API server.
func stored(t testing.TB, run *v1alpha1.HookRun) *v1alpha1.HookRun {
	t.Helper()
	data, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	var back v1alpha1.HookRun
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	return &back
}
