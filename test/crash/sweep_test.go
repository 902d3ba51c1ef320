// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/testing/csi"
)

// how says how the operator is hit.
type how int

const (
	killed how = iota
	// asked to end, and given the time for it.
	asked
	// pressed: asked to end, and killed before it has.
	pressed
	// The operator lives on: another program is killed, see volumesite_test.go.
	pluginKilled
	snapshotterKilled
	controllerKilled
	// The operator lives on, and a user cancels or deletes the run.
	canceled
	deleted
)

func (h how) String() string {
	return [...]string{
		"killed", "asked to end", "asked to end and killed",
		"CSI plugin killed", "csi-snapshotter killed", "snapshot-controller killed", "canceled", "deleted",
	}[h]
}

// endsOperator reports whether the operator is what is hit.
func (h how) endsOperator() bool { return h <= pressed }

// mayFail reports whether the run may end in another way than undisturbed: a user stops it, or calls for objects fail
// with their plugin.
func (h how) mayFail() bool { return h == pluginKilled || h == canceled || h == deleted }

// target is a server that is written to.
type target int

const (
	api target = iota
	store
	// plugin is the API server that the CSI plugin writes to.
	plugin
)

func (t target) String() string { return [...]string{"API", "store", "plugin"}[t] }

// sweep hits the operator at every write of a recorded run, one by one.
type sweep struct {
	how    how
	when   when
	target target
	// events only tell of what was written, and are swept once.
	events bool
	// only, if set, matches the kinds that are swept.
	only *regexp.Regexp
}

func (sw sweep) String() string {
	return fmt.Sprintf("%s %s %s write", sw.how, sw.when, sw.target)
}

// run makes a run for every point of the n-th sweep of a scenario, and compares it with
// an undisturbed one.
func (sw sweep) run(t *testing.T, l *testOperator, s scenario, n int, want result, recorded disturbance) {
	t.Helper()
	list, hit := sw.points(recorded), map[string]int{}
	try := func(name string, i int, at point) {
		t.Run(name, func(t *testing.T) { hit[at.class()] += sw.hit(t, l, s, want, at, uint64(i)) })
	}
	chosen := sw.choose(list, s, n)
	for i, at := range chosen {
		try(fmt.Sprint(i+1), i, at)
	}
	// How many passes a run takes varies, and with it how many writes of a class there
	// are; the first is there in any run. Only events come when they come.
	for i, at := range list {
		class := at.class()
		wanted := slices.ContainsFunc(chosen, func(other point) bool { return other.class() == class })
		if !wanted || hit[class] > 0 || isEvent(at.kind) {
			continue
		}
		if try("the first "+class, i, at); hit[class] == 0 {
			t.Errorf("the operator was never hit at %s", class)
		}
		hit[class]++ // that was said
	}
}

// hit makes a run that is hit at a point, and returns how often that was.
func (sw sweep) hit(t *testing.T, l *testOperator, s scenario, want result, at point, seed uint64) (hits int) {
	t.Helper()
	d := sw.disturb(t, l, at, seed)
	s.prepare(t, l, d)
	earlier, _ := l.readCalls() // before the first call there is no file
	last, ends := l.run(t, *d)
	if hits = l.disarm(*d); sw.how.endsOperator() && ends != hits || !sw.how.endsOperator() && ends > 0 {
		t.Errorf("the operator was hit %d times and ended %d times", hits, ends)
	}
	if sw.how.mayFail() {
		l.checkEnded(t, last, len(earlier))
		l.work.left(t, l, last, ends) // which checks what must hold
	} else {
		s.compare(t, l, want, last, ends, d.lostNode)
	}
	if sw.how == pluginKilled {
		// The operator delays the start of a plugin that ended several times by itself.
		l.kill()
		l.start(t)
	}
	if t.Failed() {
		t.Logf("hit at %s\n--- log of the operator\n%s", at, l.op().LastLogLines())
	}
	return hits
}

// disturb says what happens to one run of the sweep.
func (sw sweep) disturb(t *testing.T, l *testOperator, at point, seed uint64) *disturbance {
	t.Helper()
	// A lost write is combined with a lost disk.
	d := &disturbance{
		api: &trap{}, store: &trap{}, plugin: &trap{},
		lostNode: sw.when == before, polite: sw.how == asked, survives: !sw.how.endsOperator(),
	}
	armed := map[target]*trap{api: d.api, store: d.store, plugin: d.plugin}[sw.target]
	armed.kind, armed.at, armed.when = at.kind, at.n, sw.when
	switch sw.how {
	case killed:
		armed.spring = l.kill
	case asked:
		armed.spring = l.ask
	case pressed:
		pause := time.Duration(rand.New(rand.NewPCG(1, seed)).IntN(40)) * time.Millisecond
		armed.spring = func() bool {
			op := l.op()
			time.AfterFunc(pause, func() { _ = op.Kill() }) // run sees whether it ended
			return l.ask()
		}
	case pluginKilled:
		armed.spring = func() bool { return l.killCSIPlugin() && sw.target == plugin }
	case snapshotterKilled:
		armed.spring = func() bool { return l.killSidecar(csi.Snapshotter) }
	case controllerKilled:
		armed.spring = func() bool { return l.killSidecar(csi.SnapshotController) }
	case canceled:
		stop := cancel(t, l)
		armed.spring = func() bool { stop(armed.run); return false }
	case deleted:
		stop := deleteRun(t, l)
		armed.spring = func() bool { stop(armed.run); return false }
	}
	return d
}

// compare compares the outcome of a run with that of an undisturbed one.
func (s scenario) compare(t *testing.T, l *testOperator, want result, last lifecycle.Object, ends int, lostNode bool) {
	t.Helper()
	got := l.observe(t, last, ends)
	if s.alike != nil {
		want, got = s.alike(t, want), s.alike(t, got)
	}
	if missing := without(want.Logged, got.Logged); len(missing) > 0 && s.logged && !lostNode {
		t.Errorf("the logs lack %q", missing)
	}
	got.Logged = want.Logged // there may be more
	if lostNode {
		// Lines that were not stored are lost with their disk.
		want, got = want.withoutLogs(), got.withoutLogs()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("not as if nothing had happened (-want +got):\n%s", diff)
	}
}

// without returns the texts that are not among others.
func without(texts, others []string) []string {
	return slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return slices.Contains(others, text) })
}

// sweepCalls kills the operator in every call of an action, one by one: before the
// action works, and after it has worked and before it is answered.
func (s scenario) sweepCalls(t *testing.T, l *testOperator, want result) {
	t.Helper()
	kind := s.work.kind()
	points := []string{string(kind.PreHookPoint) + ":1", string(kind.PostHookPoint) + ":1", string(kind.PostHookPoint) + ":2"}
	if kind.HasSingleHookPoint() {
		points = points[:1]
	}
	for _, w := range []when{before, after} {
		for _, at := range points {
			t.Run(fmt.Sprintf("killed %s the action works, %s", w, at), func(t *testing.T) {
				l.replug(t, s.faults(), map[string]string{"FAULT_KILL_PARENT_AT": at, "FAULT_KILL_PARENT_WHEN": w.String()})
				d := &disturbance{api: &trap{}, store: &trap{}}
				s.prepare(t, l, d)
				last, ends := l.run(t, *d)
				if ends != 1 && !slices.Contains(s.unanswered, at+" "+w.String()) {
					t.Errorf("the operator ended %d times", ends)
				}
				s.compare(t, l, want, last, ends, false)
				if t.Failed() {
					t.Logf("--- log of the operator\n%s", l.op().LastLogLines())
				}
			})
		}
	}
	l.replug(t, s.faults(), nil)
}
