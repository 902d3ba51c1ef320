// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"time"

	"github.com/grapnel-dev/grapnel/internal/kube/shortname"
)

// Class is what became of a run.
type Class int

// The classes.
const (
	// Open is everything that has not ended, also what waits or is cancelled.
	Open Class = iota
	// Succeeded is what did all it was to do.
	Succeeded
	// Partial is what left something of use, although not all of it. It is kept like what
	// succeeded, but not protected by KeepLast.
	Partial
	// Failed is what left nothing of use.
	Failed
)

// Concurrency says what happens when a run is due while another is open.
type Concurrency string

// The policies, as a CronJob has them. The empty one is Allow.
const (
	// Allow lets both run.
	Allow Concurrency = "Allow"
	// Forbid lets the new one wait. It runs when the other has ended, unless the starting
	// deadline has passed, or a newer one is due.
	Forbid Concurrency = "Forbid"
	// Replace cancels all but the newest.
	Replace Concurrency = "Replace"
)

// Run is one that exists.
type Run struct {
	Name string
	// Scheduled is the time it was created for; zero if that is not known.
	Scheduled time.Time
	Class     Class
	// Completed is when it ended; zero if it is open.
	Completed time.Time
	// InUse says that somebody needs it, for example a Restore that reads it. It is not
	// deleted.
	InUse bool
	// Deleting says that it is being deleted. It is not counted, and not deleted again.
	Deleting bool
	// Lost says that its data is missing where it was stored.
	Lost bool
}

// Input is everything a decision is made from. Times are taken in whole seconds.
type Input struct {
	// Name is that of the Schedule, with which those of runs begin.
	Name string
	Now  time.Time
	Cron Cron

	// Paused says that nothing is to be created, and WasPaused that this was so when the
	// status was last written.
	Paused, WasPaused bool
	// SkipImmediately leaves out what a Schedule would make up for when it is created or
	// no longer paused.
	SkipImmediately bool
	Concurrency     Concurrency
	// StartingDeadline is how late a run may begin; zero is no limit.
	StartingDeadline time.Duration

	// Created is when the Schedule was.
	Created time.Time
	// LastSchedule and LastSkipped are what earlier decisions recorded; zero is nothing.
	// Who sets LastSkipped to now, for example because the expression was changed, makes
	// all earlier times settled.
	LastSchedule, LastSkipped time.Time
	// Runs are all that exist of the Schedule, in any order.
	Runs []Run

	// KeepSucceeded is how many runs stay that succeeded or did so in part, and KeepFailed
	// how many that failed; nil is all.
	KeepSucceeded, KeepFailed *int32
	// KeepLast is how many of the newest succeeded ones stay in any case.
	KeepLast int32
}

// Reason says why a run was not created, or of how many only one was.
type Reason string

// The reasons.
const (
	ReasonPaused            Reason = "Paused"
	ReasonConcurrencyForbid Reason = "ConcurrencyForbid"
	ReasonMissedDeadline    Reason = "MissedDeadline"
	ReasonTooManyMissed     Reason = "TooManyMissed"
	ReasonSkipImmediately   Reason = "SkipImmediately"
)

// Skip is one time for which there is no run, or with ReasonTooManyMissed the newest of
// those of which only one is made up for. As long as nothing changes, it is told again
// by every decision: who makes events of it compares the time and the reason.
type Skip struct {
	Reason Reason
	Time   time.Time
	// Message says for people what happened and what they can do.
	Message string
}

// Create is a run to create. An object of that name which exists already is this run, or
// belongs to somebody else; there never is a second one for the time.
type Create struct {
	Name      string
	Scheduled time.Time
}

// Decision is what to do, in this order: cancel, create, record, delete. Whatever of it was
// done when the operator ends, the next decision asks for the rest; but what is deleted
// before it is recorded is forgotten, and may run again.
type Decision struct {
	// Cancel names open runs that a newer one replaces, oldest first.
	Cancel []string
	// Create is the run to create; nil is none.
	Create *Create
	// LastSchedule and LastSkipped are to be recorded. Zero is nothing, also if there was
	// something before.
	LastSchedule, LastSkipped time.Time
	// Delete names the runs of which there are more than are kept, oldest first.
	Delete []string
	// Skipped says what did not run, and why.
	Skipped []Skip
	// NextWake is the next time of the schedule, in UTC, and when a decision is due again
	// at the latest, also if it is paused: the time is skipped then. It is earlier if a
	// run, the Schedule or the clock changes: a timer does not notice the last, so that it
	// should not run for more than an hour or so.
	NextWake time.Time
}

// Decide says what a Schedule has to do now. It changes nothing that it is given.
func Decide(in Input) Decision {
	in = normalized(in)
	d := &decider{in: in}
	d.out.Delete = tooMany(in)
	d.settle()
	if due, ok := d.due(); ok {
		d.create(due)
	}
	if !in.Paused {
		d.replace()
	}
	d.out.NextWake = in.Cron.Upcoming(d.since, in.Now)
	return d.out
}

type decider struct {
	in  Input
	out Decision
	// since is up to when all times are settled.
	since time.Time
}

func (d *decider) skip(reason Reason, t time.Time, format string, args ...any) {
	d.out.Skipped = append(d.out.Skipped, Skip{reason, t, fmt.Sprintf(format, args...)})
}

// due returns the time for which a run is wanted.
func (d *decider) due() (time.Time, bool) {
	in := d.in
	missed := in.Cron.Missed(d.since, in.Now)
	t := missed.Latest
	switch {
	case t.IsZero():
		return t, false
	case in.Paused:
		d.skip(ReasonPaused, t, "nothing ran at %s: the Schedule is paused; set spec.paused to false to go on", shown(t))
		return t, false
	case in.StartingDeadline > 0 && t.Add(in.StartingDeadline).Before(in.Now):
		d.skip(ReasonMissedDeadline, t,
			"nothing ran at %s, and it is too late now: the starting deadline is %s; set a longer one if the operator is away for longer",
			shown(t), in.StartingDeadline)
		// It stays too late, and is told once.
		d.since, d.out.LastSkipped = t, t
		return t, false
	}
	if missed.TooMany() {
		d.skip(ReasonTooManyMissed, t,
			"more than %d runs were missed since %s, and only that of %s is made up for; if the Schedule was not paused, look where the operator was, and at its clock",
			MaxMissed, shown(d.since), shown(t))
	}
	if name, open := d.open(); open && in.Concurrency == Forbid {
		d.skip(ReasonConcurrencyForbid, t,
			"the run of %s waits until %s has ended: concurrencyPolicy is Forbid", shown(t), name)
		return t, false
	}
	return t, true
}

// create creates the run of a time, unless there is one already.
func (d *decider) create(t time.Time) {
	name := RunName(d.in.Name, t)
	d.since, d.out.LastSchedule = later(d.since, t), t
	for _, run := range d.in.Runs {
		if run.Name == name || run.Scheduled.Equal(t) {
			return
		}
	}
	d.out.Create = &Create{Name: name, Scheduled: t}
}

// open returns the name of an open run, the newest.
func (d *decider) open() (name string, found bool) {
	newest := -1
	for i, run := range d.in.Runs {
		if run.Class == Open && (newest < 0 || compare(run, d.in.Runs[newest]) > 0) {
			newest = i
		}
	}
	if newest < 0 {
		return "", false
	}
	return d.in.Runs[newest].Name, true
}

// replace cancels all open runs but the newest. It does so at any time: the operator may
// have ended after it created that.
func (d *decider) replace() {
	if d.in.Concurrency != Replace {
		return
	}
	keep, _ := d.open()
	if d.out.Create != nil {
		keep = d.out.Create.Name
	}
	for _, run := range sorted(d.in.Runs) {
		if run.Class == Open && !run.Deleting && run.Name != keep {
			d.out.Cancel = append(d.out.Cancel, run.Name)
		}
	}
}

const (
	// maxName is how long the name of a run may be, so that it fits where it is used with
	// something added; timestamp is what it ends with.
	maxName   = 52
	timestamp = "20060102150405"
)

// RunName returns the name of the run of a Schedule for a time: the name of the Schedule,
// shortened with a hash if need be, and the time in UTC, at most 52 characters in all.
func RunName(schedule string, scheduled time.Time) string {
	suffix := "-" + scheduled.UTC().Format(timestamp)
	if limit := maxName - len(suffix); len(schedule) > limit {
		schedule = shortname.Of(schedule, limit, schedule)
	}
	return schedule + suffix
}

func shown(t time.Time) string { return t.UTC().Format(time.RFC3339) }
