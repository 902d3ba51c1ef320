// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"time"

	"github.com/grapnel-dev/grapnel/internal/kube/shortname"
)

// RunState is what became of a run.
type RunState int

// The classes.
const (
	// Active is everything that has not ended, also what waits or is cancelled.
	Active RunState = iota
	// Succeeded is what did all it was to do.
	Succeeded
	// Partial is what left something of use, although not all of it. It is kept like what
	// succeeded, but not protected by KeepLast.
	Partial
	// Failed is what left nothing of use.
	Failed
)

// ConcurrencyPolicy says what happens when a run is due while another is open.
type ConcurrencyPolicy string

// The policies, as a CronJob has them. The empty one is Allow.
const (
	// AllowConcurrent lets both run.
	AllowConcurrent ConcurrencyPolicy = "Allow"
	// ForbidConcurrent lets the new one wait. It runs when the other has ended, unless the starting
	// deadline has passed, or a newer one is due.
	ForbidConcurrent ConcurrencyPolicy = "Forbid"
	// ReplaceConcurrent cancels all but the newest.
	ReplaceConcurrent ConcurrencyPolicy = "Replace"
)

// Run is one that exists.
type Run struct {
	Name string
	// Scheduled is the time it was created for; zero if that is not known.
	Scheduled time.Time
	State     RunState
	// Completed is when it ended; zero if it is open.
	Completed time.Time
	// InUse says that somebody needs it, for example a Restore that reads it. It is not
	// deleted.
	InUse bool
	// Deleting says that it is being deleted. It is not counted, and not deleted again.
	Deleting bool
	// DataMissing says that its data is missing where it was stored.
	DataMissing bool
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
	SkipImmediately   bool
	ConcurrencyPolicy ConcurrencyPolicy
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

// SkipReason says why a run was not created, or of how many only one was.
type SkipReason string

// The reasons.
const (
	ReasonPaused            SkipReason = "Paused"
	ReasonConcurrencyForbid SkipReason = "ConcurrencyForbid"
	ReasonMissedDeadline    SkipReason = "MissedDeadline"
	ReasonTooManyMissed     SkipReason = "TooManyMissed"
	ReasonSkipImmediately   SkipReason = "SkipImmediately"
)

// Skip is one time for which there is no run, or with ReasonTooManyMissed the newest of
// those of which only one is made up for. As long as nothing changes, it is told again
// by every decision: who makes events of it compares the time and the reason.
type Skip struct {
	Reason SkipReason
	Time   time.Time
	// Message says for people what happened and what they can do.
	Message string
}

// RunToCreate is a run to create. An object of that name which exists already is this run, or
// belongs to somebody else; there never is a second one for the time.
type RunToCreate struct {
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
	Create *RunToCreate
	// LastSchedule and LastSkipped are to be recorded. Zero is nothing, also if there was
	// something before.
	LastSchedule, LastSkipped time.Time
	// Delete names the runs of which there are more than are kept, oldest first.
	Delete []string
	// Skipped says what did not run, and why.
	Skipped []Skip
	// NextScheduleTime is the next time of the schedule, in UTC, and when a decision is due again
	// at the latest, also if it is paused: the time is skipped then. It is earlier if a
	// run, the Schedule or the clock changes: a timer does not notice the last, so that it
	// should not run for more than an hour or so.
	NextScheduleTime time.Time
}

// Decide says what a Schedule has to do now. It changes nothing that it is given.
func Decide(in Input) Decision {
	in = normalizedInput(in)
	d := &decider{in: in}
	d.out.Delete = surplusRunNames(in)
	d.decideSince()
	if due, ok := d.decideDueTime(); ok {
		d.decideCreate(due)
	}
	if !in.Paused {
		d.decideReplacements()
	}
	d.out.NextScheduleTime = in.Cron.NextSince(d.since, in.Now)
	return d.out
}

type decider struct {
	in  Input
	out Decision
	// since is up to when all times are settled.
	since time.Time
}

func (d *decider) addSkip(reason SkipReason, t time.Time, format string, args ...any) {
	d.out.Skipped = append(d.out.Skipped, Skip{reason, t, fmt.Sprintf(format, args...)})
}

// decideDueTime returns the time for which a run is wanted.
func (d *decider) decideDueTime() (time.Time, bool) {
	in := d.in
	missed := in.Cron.MissedTimes(d.since, in.Now)
	t := missed.Latest
	switch {
	case t.IsZero():
		return t, false
	case in.Paused:
		d.addSkip(ReasonPaused, t, "nothing ran at %s: the Schedule is paused; set spec.paused to false to go on", formatTime(t))
		return t, false
	case in.StartingDeadline > 0 && t.Add(in.StartingDeadline).Before(in.Now):
		d.addSkip(ReasonMissedDeadline, t,
			"nothing ran at %s, and it is too late now: the starting deadline is %s; set a longer one if the operator is away for longer",
			formatTime(t), in.StartingDeadline)
		// It stays too late, and is told once.
		d.since, d.out.LastSkipped = t, t
		return t, false
	}
	if missed.IsCapped() {
		d.addSkip(ReasonTooManyMissed, t,
			"more than %d runs were missed since %s, and only that of %s is made up for; if the Schedule was not paused, look where the operator was, and at its clock",
			MaxMissed, formatTime(d.since), formatTime(t))
	}
	if name, open := d.newestActiveRun(); open && in.ConcurrencyPolicy == ForbidConcurrent {
		d.addSkip(ReasonConcurrencyForbid, t,
			"the run of %s waits until %s has ended: concurrencyPolicy is Forbid", formatTime(t), name)
		return t, false
	}
	return t, true
}

// decideCreate creates the run of a time, unless there is one already.
func (d *decider) decideCreate(t time.Time) {
	name := RunName(d.in.Name, t)
	d.since, d.out.LastSchedule = laterTime(d.since, t), t
	for _, run := range d.in.Runs {
		if run.Name == name || run.Scheduled.Equal(t) {
			return
		}
	}
	d.out.Create = &RunToCreate{Name: name, Scheduled: t}
}

// newestActiveRun returns the name of an open run, the newest.
func (d *decider) newestActiveRun() (name string, found bool) {
	newest := -1
	for i, run := range d.in.Runs {
		if run.State == Active && (newest < 0 || compareRuns(run, d.in.Runs[newest]) > 0) {
			newest = i
		}
	}
	if newest < 0 {
		return "", false
	}
	return d.in.Runs[newest].Name, true
}

// decideReplacements cancels all open runs but the newest. It does so at any time: the operator may
// have ended after it created that.
func (d *decider) decideReplacements() {
	if d.in.ConcurrencyPolicy != ReplaceConcurrent {
		return
	}
	keep, _ := d.newestActiveRun()
	if d.out.Create != nil {
		keep = d.out.Create.Name
	}
	for _, run := range sortedRuns(d.in.Runs) {
		if run.State == Active && !run.Deleting && run.Name != keep {
			d.out.Cancel = append(d.out.Cancel, run.Name)
		}
	}
}

const (
	// maxRunName is how long the name of a run may be, so that it fits where it is used with
	// something added; timestamp is what it ends with.
	maxRunName      = 52
	timestampFormat = "20060102150405"
)

// RunName returns the name of the run of a Schedule for a time: the name of the Schedule,
// shortened with a hash if need be, and the time in UTC, at most 52 characters in all.
func RunName(schedule string, scheduled time.Time) string {
	suffix := "-" + scheduled.UTC().Format(timestampFormat)
	if limit := maxRunName - len(suffix); len(schedule) > limit {
		schedule = shortname.ChildName(schedule, limit, schedule)
	}
	return schedule + suffix
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
