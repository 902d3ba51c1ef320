// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

func TestCrash(t *testing.T) {
	s := newSite(t)
	for _, scene := range scenarios() {
		t.Run(scene.name, func(t *testing.T) {
			t.Parallel()
			l := s.newTestOperator(t, scene)
			want, recorded := scene.record(t, l)
			for n, sw := range scene.chosenSweeps() {
				t.Run(fmt.Sprint(sw), func(t *testing.T) { sw.run(t, l, scene, n, want, recorded) })
			}
			if scene.calls {
				scene.sweepCalls(t, l, want)
			}
		})
	}
	// One operator has to come through all objects of a Restore: it asks for each again.
	for kind, every := range map[lifecycle.KindTraits][]int{lifecycle.BackupKind: {5, 7, 11}, lifecycle.RestoreKind: {23, 29}, lifecycle.DeletionRunKind: {5}} {
		t.Run("again "+kind.Name, func(t *testing.T) {
			t.Parallel()
			crashAgain(t, s, ordinary(kind, "again"), every)
		})
	}
	for _, kind := range []lifecycle.KindTraits{lifecycle.BackupKind, lifecycle.RestoreKind} {
		t.Run("once "+kind.Name, func(t *testing.T) {
			t.Parallel()
			crashOnce(t, s, ordinary(kind, "once"))
		})
		t.Run("working "+kind.Name, func(t *testing.T) {
			t.Parallel()
			scene := ordinary(kind, "working")
			scene.pre, scene.post = "sleep:300ms", "sleep:300ms"
			stopWhileAnActionWorks(t, s, scene)
		})
	}
}

// ordinary returns the first scenario of a kind of work, with a lane of its own.
func ordinary(kind lifecycle.KindTraits, lane string) scenario {
	all := scenarios()
	scene := all[slices.IndexFunc(all, func(s scenario) bool { return s.work.kind() == kind })]
	scene.name = lane + "-" + scene.name
	return scene
}

// crashAgain kills the operator repeatedly within one run. It has to live for a
// few writes: to create the HookRuns and record that they are there, or to record an
// attempt and its result.
func crashAgain(t *testing.T, s *site, scene scenario, every []int) {
	t.Helper()
	l := s.newTestOperator(t, scene)
	want, _ := scene.record(t, l)
	for _, n := range every {
		for _, w := range []when{before, after} {
			t.Run(fmt.Sprintf("%s every %d writes", w, n), func(t *testing.T) {
				d := disturbance{api: &trap{at: n, again: true, when: w, spring: l.kill}, store: &trap{}}
				last, ends := l.run(t, d)
				if ends < 2 {
					t.Errorf("the operator ended %d times", ends)
				}
				scene.compare(t, l, want, last, ends, false)
			})
		}
	}
}

// crashOnce kills the operator in calls that must not be repeated: they fail, and what
// is owed is paid all the same.
func crashOnce(t *testing.T, s *site, scene scenario) {
	t.Helper()
	scene.once = true
	l := s.newTestOperator(t, scene)
	scene.record(t, l)
	kind := scene.work.kind()
	for _, c := range []struct {
		at               string
		phase            v1alpha1.RunPhase
		pre, notify, pay string
		calls            int
	}{
		{string(kind.PreHookPoint) + ":1", kind.FailedPrePhase, "Failed", "Completed", "Completed", 3},
		{string(kind.PostHookPoint) + ":1", v1alpha1.RunPhaseCompleted, "Completed", "Failed", "Completed", 3},
		{string(kind.PostHookPoint) + ":2", v1alpha1.RunPhaseCompleted, "Completed", "Completed", "Completed", 4},
	} {
		for _, w := range []when{before, after} {
			t.Run(fmt.Sprintf("killed %s the action works, %s", w, c.at), func(t *testing.T) {
				l.replug(t, scene.faults(), map[string]string{"FAULT_KILL_PARENT_AT": c.at, "FAULT_KILL_PARENT_WHEN": w.String()})
				last, ends := l.run(t, disturbance{api: &trap{}, store: &trap{}})
				got := l.observe(t, last, ends)
				pre, post := []string{l.pair() + " " + c.pre}, []string{l.single() + " " + c.notify, l.pair() + " " + c.pay}
				if ends != 1 || got.Phase != c.phase || !slices.Equal(got.Pre, pre) || !slices.Equal(got.Post, post) {
					t.Errorf("%d ends, %s, %q, %q; want 1, %s, %q, %q", ends, got.Phase, got.Pre, got.Post, c.phase, pre, post)
				}
				if calls := l.callsOf(t, l.hookRuns(t, last)); len(calls) != c.calls {
					t.Errorf("the calls are %+v, want %d", calls, c.calls)
				}
				if worked := strings.Contains(text(t, got.Left), "settings"); worked != (c.phase == v1alpha1.RunPhaseCompleted) {
					t.Errorf("the run is %s, and objects were written: %v", got.Phase, worked)
				}
			})
		}
	}
}

// stopWhileAnActionWorks asks the operator to end while an action works that cannot
// be interrupted.
func stopWhileAnActionWorks(t *testing.T, s *site, scene scenario) {
	t.Helper()
	l := s.newTestOperator(t, scene)
	want, _ := scene.record(t, l)
	for n, point := range []string{"Pre action", "first Post action", "second Post action"} {
		t.Run(point, func(t *testing.T) {
			l.replug(t, scene.faults(), nil) // its calls are counted from here
			asked := make(chan struct{})
			go func() {
				defer close(asked)
				l.awaitCalls(t, n+1, func(call) bool { return true })
				l.ask()
			}()
			last, ends := l.run(t, disturbance{api: &trap{}, store: &trap{}, polite: true})
			<-asked
			if ends != 1 {
				t.Errorf("the operator ended %d times", ends)
			}
			scene.compare(t, l, want, last, ends, false)
		})
	}
}
