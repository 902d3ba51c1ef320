// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"
)

// world is one Schedule, its runs, a clock that is set back and forward, and operators
// that start and stop.
type world struct {
	t      *testing.T
	random *rand.Rand
	// in is the state in the API server; its Runs are in runs.
	in   Input
	runs map[string]Run
	// latest is the newest time that the clock ever showed.
	latest time.Time
	// ran are the times for which there ever was a run, and requested the requests.
	ran       map[time.Time]bool
	requested map[string]bool
	// created is how many runs were created since the clock was changed.
	created int
	// Times up to left must not be made up for. leftOut is set if any time was skipped.
	left    time.Time
	leftOut bool
}

func newWorld(t *testing.T, random *rand.Rand) *world {
	t.Helper()
	pick := func(texts ...string) string { return texts[random.IntN(len(texts))] }
	count := func() *int32 {
		n := random.Int32N(4)
		if n == 3 {
			return nil
		}
		return &n
	}
	begin := at(pick("2024-02-28T12:00:00Z", "2024-03-30T12:00:00Z", "2024-10-26T12:00:00Z", "2024-12-31T12:00:00Z"))
	w := &world{
		t: t, random: random, runs: map[string]Run{}, ran: map[time.Time]bool{}, requested: map[string]bool{}, latest: begin,
		in: Input{
			Name: "nightly", Now: begin, Created: begin,
			Cron: parsed(t, pick("30 2 * * *", "*/20 * * * *", "0 */3 * * *", "@every 50m", "15 1,2,3 * * 0,6", "0 0 29 2 *"),
				pick("", "Europe/Berlin", "America/New_York")),
			ConcurrencyPolicy: ConcurrencyPolicy(pick("", string(AllowConcurrent), string(ForbidConcurrent), string(ReplaceConcurrent))),
			SkipImmediately:   random.IntN(3) == 0,
			KeepSucceeded:     count(), KeepFailed: count(), KeepLast: random.Int32N(3),
		},
	}
	if random.IntN(2) == 0 {
		w.in.StartingDeadline = time.Duration(1+random.IntN(300)) * time.Minute
	}
	return w
}

func (w *world) chance(one int) bool { return w.random.IntN(one) == 0 }

// move lets time pass, or sets the clock back, within an hour of what it showed before.
func (w *world) move() {
	now := w.in.Now
	switch w.random.IntN(10) {
	case 0:
		now = now.Add(-time.Duration(w.random.Int64N(int64(time.Hour))))
		if earliest := w.latest.Add(-clockTolerance); now.Before(earliest) {
			now = earliest
		}
	case 1: // the operator was unavailable
		now = now.Add(time.Duration(w.random.Int64N(int64(400 * time.Hour))))
	case 2, 3, 4:
		now = w.in.Cron.NextSince(laterTime(w.in.LastSchedule, w.in.Created), now)
	default:
		now = now.Add(time.Duration(w.random.Int64N(int64(2 * time.Hour))))
	}
	if !now.Equal(w.in.Now) {
		w.created = 0
	}
	w.in.Now, w.latest = now, laterTime(w.latest, now)
}

// others makes other random changes.
func (w *world) others() {
	if w.chance(10) {
		w.in.Suspended = !w.in.Suspended
	}
	if w.chance(10) {
		w.in.RunRequest = formatTime(w.in.Now.Add(time.Duration(w.random.IntN(7200)-3600) * time.Second))
	}
	for _, name := range slices.Sorted(maps.Keys(w.runs)) {
		run := w.runs[name]
		recorded := !run.Scheduled.After(w.in.LastSchedule)
		switch {
		case run.Deleting && w.chance(2):
			delete(w.runs, name)
			continue
		case run.State == Active && w.chance(3):
			run.State, run.Completed = RunState(1+w.random.IntN(2)), w.in.Now
		case recorded && w.chance(20):
			run.Deleting = true
		case w.chance(10):
			run.InUse = !run.InUse
		}
		w.runs[name] = run
	}
}

// pass is one reconcile of the operator, which may be interrupted; it reports whether
// it was completed.
func (w *world) pass() bool {
	in := w.in
	in.Runs = slices.Collect(maps.Values(w.runs))
	w.random.Shuffle(len(in.Runs), func(i, j int) { in.Runs[i], in.Runs[j] = in.Runs[j], in.Runs[i] })
	d := Decide(in)
	w.check(in, d)
	for _, name := range d.Cancel {
		if w.chance(20) {
			return false
		}
		run := w.runs[name]
		run.State, run.Completed = Failed, in.Now
		w.runs[name] = run
	}
	if d.Create != nil {
		w.create(*d.Create)
	}
	if w.chance(10) {
		return false
	}
	if d.LastSkipped.After(w.in.LastSkipped) {
		w.leftOut = true
	}
	if in.WasSuspended && !in.Suspended && in.SkipImmediately {
		w.left = in.Now
	}
	w.leftOut = w.leftOut || in.Suspended
	w.in.LastSchedule, w.in.LastSkipped, w.in.WasSuspended = d.LastSchedule, d.LastSkipped, in.Suspended
	if d.RunRequest != nil {
		w.in.RunRequest = ""
	}
	for _, name := range d.Delete {
		if w.chance(20) {
			return false
		}
		run := w.runs[name]
		run.Deleting = true
		w.runs[name] = run
	}
	return true
}

// work reconciles until three in a row were completed: one for a run that is due, one for a requested run, and one for
// what they replaced.
func (w *world) work() {
	for done, tries := 0, 0; done < 3; tries++ {
		if tries > 100 {
			w.t.Fatal("it never stops")
		}
		if done++; !w.pass() {
			done = 0
		}
	}
}

func (w *world) create(c RunToCreate) {
	if _, exists := w.runs[c.Name]; exists {
		w.t.Fatalf("a second run %s", c.Name)
	}
	w.runs[c.Name] = Run{Name: c.Name, Scheduled: c.Scheduled, Request: c.Request}
	if c.Request != "" {
		if w.requested[c.Request] {
			w.t.Fatalf("a second run for the request of %s", c.Request)
		}
		w.requested[c.Request] = true
		// A run of the same second counts for a time of the schedule.
		requested := at(c.Request)
		w.ran[requested] = w.ran[requested] || requested.Equal(w.in.Cron.Next(requested.Add(-time.Second)))
		return
	}
	if w.ran[c.Scheduled] {
		w.t.Fatalf("a second run for %v", c.Scheduled)
	}
	if w.created++; w.created > 1 {
		w.t.Fatalf("a second run at %v", w.in.Now)
	}
	w.ran[c.Scheduled] = true
}

// check checks one decision.
func (w *world) check(in Input, d Decision) {
	manual := d.Create != nil && d.Create.Request != ""
	if in.Suspended && !manual && (d.Create != nil || len(d.Cancel) > 0) {
		w.t.Fatalf("suspended, and %+v", d)
	}
	if !d.NextScheduleTime.After(in.Now) {
		w.t.Fatalf("at %v the next decision is due at %v", in.Now, d.NextScheduleTime)
	}
	last := NewestSucceeded(in.Runs, int(in.KeepLast), in.Now)
	for _, name := range d.Delete {
		if run := w.runs[name]; run.State == Active || run.InUse || run.Deleting || last[name] {
			w.t.Fatalf("%+v is deleted", run)
		}
	}
	if d.Create == nil {
		return
	}
	at := d.Create.Scheduled
	switch {
	case in.ConcurrencyPolicy == ForbidConcurrent && w.open(true) > 0:
		w.t.Fatal("two runs are open, which is forbidden")
	case manual:
		w.checkNewest(d)
	case at.After(in.Now), !at.After(in.Created):
		w.t.Fatalf("a run for %v at %v", at, in.Now)
	case in.StartingDeadline > 0 && at.Add(in.StartingDeadline).Before(in.Now.Truncate(time.Second)):
		w.t.Fatalf("a run for %v at %v, with a deadline of %v", at, in.Now, in.StartingDeadline)
	case !at.After(w.left):
		w.t.Fatalf("a run for %v, although all up to %v were skipped", at, w.left)
	case !in.Cron.Next(laterTime(at, in.Created)).After(in.Now.Truncate(time.Second)):
		w.t.Fatalf("a run for %v at %v, and there is a newer time", at, in.Now)
	}
}

// checkNewest checks that the run to create is the newest one.
func (w *world) checkNewest(d Decision) {
	for _, run := range w.runs {
		if !run.Scheduled.Before(d.Create.Scheduled) {
			w.t.Fatalf("a requested run at %v, although %s is newer", d.Create.Scheduled, run.Name)
		}
	}
}

// open counts active runs, and those that are being deleted only on request.
func (w *world) open(deleting bool) (open int) {
	for _, run := range w.runs {
		if run.State == Active && (deleting || !run.Deleting) {
			open++
		}
	}
	return open
}

// rest checks the invariants when there is nothing left to do.
func (w *world) rest() {
	if w.in.ConcurrencyPolicy == ReplaceConcurrent && !w.in.Suspended && w.open(false) > 1 {
		w.t.Fatalf("%d runs are open", w.open(false))
	}
	for class, keep := range map[RunState]*int32{Succeeded: w.in.KeepSucceeded, Failed: w.in.KeepFailed} {
		have, spared := 0, 0
		for _, run := range w.runs {
			if run.State == class && !run.Deleting {
				have++
				if run.InUse {
					spared++
				}
			}
		}
		if keep != nil && have > int(max(*keep, w.in.KeepLast))+spared {
			w.t.Fatalf("%d runs of class %d are kept, %d of them in use", have, class, spared)
		}
	}
	if w.in.SkipImmediately || w.leftOut || w.in.StartingDeadline > 0 || w.in.ConcurrencyPolicy == ForbidConcurrent ||
		w.in.Cron.every > 0 || !w.in.Now.Equal(w.latest) {
		return // not every time has its run
	}
	if newest := w.in.Cron.MissedTimes(w.in.Created, w.in.Now).Latest; !newest.IsZero() && !w.ran[newest] {
		w.t.Fatalf("nothing ran for %v", newest)
	}
}

func TestDecide_RandomHistories(t *testing.T) {
	var runs, requested int
	for seed := range uint64(200) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			w := newWorld(t, rand.New(rand.NewPCG(seed, 6)))
			for range 100 {
				w.move()
				w.others()
				w.work()
				w.rest()
			}
			runs, requested = runs+len(w.ran), requested+len(w.requested)
		})
	}
	if runs < 3000 || requested < 500 {
		t.Errorf("there were only %d runs, and %d requested ones", runs, requested)
	}
}
