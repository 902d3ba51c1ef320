// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel/internal/names"
)

// RunState is the state of a run.
type RunState int

// The states of a run.
const (
	// Active is a run that has not finished, including runs that wait or are being canceled.
	Active RunState = iota
	// Succeeded is a run that did everything it should.
	Succeeded
	// Partial is a run with a useful but incomplete result. It is kept like Succeeded, but not
	// protected by KeepLast.
	Partial
	// Failed is a run without a useful result.
	Failed
)

// ConcurrencyPolicy determines what happens when a run is due while another is active.
type ConcurrencyPolicy string

// The policies, as in a CronJob. An empty policy means Allow.
const (
	// AllowConcurrent lets both run.
	AllowConcurrent ConcurrencyPolicy = "Allow"
	// ForbidConcurrent lets the new run wait. It starts when the other has finished, unless the
	// starting deadline has passed, or a newer run is due.
	ForbidConcurrent ConcurrencyPolicy = "Forbid"
	// ReplaceConcurrent cancels all active runs but the newest.
	ReplaceConcurrent ConcurrencyPolicy = "Replace"
)

// Run is an existing run.
type Run struct {
	Name string
	// Scheduled is the time that the run was created for; zero if it is unknown.
	Scheduled time.Time
	// Request is the request for a manual run that the run was created for; empty if it was
	// created for a time of the schedule. It is named after the time in its request, and
	// Scheduled is when the request was handled. It does not affect when the next run is due.
	Request string
	State   RunState
	// Completed is when the run finished; zero if it is active.
	Completed time.Time
	// InUse is set if the run is needed, for example by a Restore that reads it. It is not
	// deleted.
	InUse bool
	// Deleting is set if the run is being deleted. It is not counted, and not deleted again.
	Deleting bool
	// DataMissing is set if the stored data of the run is missing.
	DataMissing bool
}

// Input is the complete input of a decision. Times are in whole seconds.
type Input struct {
	// Name is the name of the Schedule, which is the prefix of the names of its runs.
	Name string
	Now  time.Time
	Cron Cron

	// Suspended is set if no run may be created. WasSuspended is the value of Suspended when the
	// status was last written.
	Suspended, WasSuspended bool
	// SkipImmediately skips the times that a Schedule would make up for when it is created or
	// resumed.
	SkipImmediately   bool
	ConcurrencyPolicy ConcurrencyPolicy
	// StartingDeadline is how late a run may begin; zero means no limit.
	StartingDeadline time.Duration

	// Created is when the Schedule was created.
	Created time.Time
	// LastSchedule and LastSkipped are what earlier decisions recorded; zero means nothing.
	// Setting LastSkipped to now, for example because the expression was changed, settles all
	// earlier times.
	LastSchedule, LastSkipped time.Time
	// RunRequest requests a manual run: a time in RFC 3339 format, not
	// validated. It is empty if there is none, or it was handled already.
	RunRequest string
	// LastRunRequest is the time of the last request that was handled; zero if there is none. Older ones come
	// back when a tool restores an object as it was.
	LastRunRequest time.Time
	// Runs are all existing runs of the Schedule, in any order.
	Runs []Run

	// KeepSucceeded is how many Succeeded and Partial runs are kept, and KeepFailed how many
	// Failed ones; nil means all.
	KeepSucceeded, KeepFailed *int32
	// KeepLast is how many of the newest Succeeded runs are kept in any case.
	KeepLast int32
}

// SkipReason is why a run was not created, or why only one of several was.
type SkipReason string

// The reasons.
const (
	ReasonSuspended         SkipReason = "Suspended"
	ReasonConcurrencyForbid SkipReason = "ConcurrencyForbid"
	ReasonMissedDeadline    SkipReason = "MissedDeadline"
	ReasonTooManyMissed     SkipReason = "TooManyMissed"
	ReasonSkipImmediately   SkipReason = "SkipImmediately"
)

// The reasons only of requests for a manual run.
const (
	ReasonInvalidTime SkipReason = "InvalidTime"
	ReasonOutdated    SkipReason = "Outdated"
	ReasonFutureTime  SkipReason = "FutureTime"
	ReasonRunExists   SkipReason = "RunExists"
)

// Skip is one time for which there is no run, or with ReasonTooManyMissed the newest of
// several times, only one of which is made up for. Every decision returns it again until
// something changes: to emit an event once, compare the time and the reason.
type Skip struct {
	Reason SkipReason
	Time   time.Time
	// Message says what happened and what a user can do.
	Message string
}

// RunToCreate is a run to create. An existing object of that name is either this run, or
// was created by others; there is never a second run for the time.
type RunToCreate struct {
	Name      string
	Scheduled time.Time
	// Request is the request for a manual run; empty for a time of the schedule.
	Request string
}

// HandledRequest is a request for a manual run that is handled now.
type HandledRequest struct {
	Value string
	// RunName is the run of the request: Decision.Create, or one that exists. It is empty if the
	// request is refused.
	RunName string
	// Reason and Message say why no run is created for the request; empty if one is, or was
	// before the operator stopped.
	Reason  SkipReason
	Message string
}

// Decision is what to do, in this order: cancel, create, record, delete. If the operator stops
// in between, the next decision returns the rest. Record runs before they are deleted:
// otherwise they are forgotten, and may run again.
type Decision struct {
	// Cancel names active runs that a newer one replaces, oldest first.
	Cancel []string
	// Create is the run to create; nil means none.
	Create *RunToCreate
	// RunRequest is the request for a manual run to record as handled; nil means none. A request
	// that waits for the creation of another run is handled by the next decision.
	RunRequest *HandledRequest
	// LastSchedule and LastSkipped are the values to record. Zero means nothing, even if there
	// was a value before.
	LastSchedule, LastSkipped time.Time
	// Delete names the runs in excess of the limits, oldest first.
	Delete []string
	// Skipped lists what did not run, and why.
	Skipped []Skip
	// NextScheduleTime is the next time of the schedule, in UTC. Decide must be called again at
	// that time at the latest, even if the Schedule is suspended: the time is skipped then. Call it
	// earlier if a run, the Schedule or the clock changes. A timer does not notice a change of
	// the clock, so it should not run for more than an hour or so.
	NextScheduleTime time.Time
}

// Decide decides what a Schedule has to do now. It does not modify its input.
func Decide(in Input) Decision {
	in = normalizedInput(in)
	d := &decider{in: in}
	d.out.Delete = surplusRunNames(in)
	d.decideSince()
	if due, ok := d.decideDueTime(); ok {
		d.decideCreate(due)
	}
	d.decideRunRequest()
	if !in.Suspended || d.out.Create != nil {
		d.decideReplacements()
	}
	d.out.NextScheduleTime = in.Cron.NextSince(d.since, in.Now)
	return d.out
}

type decider struct {
	in  Input
	out Decision
	// since is the time up to which all times are settled.
	since time.Time
}

func (d *decider) addSkip(reason SkipReason, t time.Time, format string, args ...any) {
	d.out.Skipped = append(d.out.Skipped, Skip{reason, t, fmt.Sprintf(format, args...)})
}

// decideDueTime returns the time for which a run is due.
func (d *decider) decideDueTime() (time.Time, bool) {
	in := d.in
	missed := in.Cron.MissedTimes(d.since, in.Now)
	t := missed.Latest
	switch {
	case t.IsZero():
		return t, false
	case in.Suspended:
		d.addSkip(ReasonSuspended, t, "nothing ran at %s: the Schedule is suspended; set spec.suspend to false to resume", formatTime(t))
		return t, false
	case in.StartingDeadline > 0 && t.Add(in.StartingDeadline).Before(in.Now):
		d.addSkip(ReasonMissedDeadline, t,
			"nothing ran at %s, and it is too late now: the starting deadline is %s; set a longer one if the operator may be unavailable for longer",
			formatTime(t), in.StartingDeadline)
		// The time stays too late, and is reported once.
		d.since, d.out.LastSkipped = t, t
		return t, false
	}
	if missed.IsCapped() {
		d.addSkip(ReasonTooManyMissed, t,
			"more than %d runs were missed since %s, and only that of %s is made up for; if the Schedule was not suspended, check why the operator was unavailable, and its clock",
			MaxMissed, formatTime(d.since), formatTime(t))
	}
	if name, open := d.newestActiveRun(); open && in.ConcurrencyPolicy == ForbidConcurrent && !d.hasRunForTime(t) {
		d.addSkip(ReasonConcurrencyForbid, t,
			"the run of %s waits until %s has ended: concurrencyPolicy is Forbid", formatTime(t), name)
		return t, false
	}
	return t, true
}

// decideCreate creates the run for a time, unless it exists.
func (d *decider) decideCreate(t time.Time) {
	d.since, d.out.LastSchedule = laterTime(d.since, t), t
	if !d.hasRunForTime(t) {
		d.out.Create = &RunToCreate{Name: RunName(d.in.Name, t), Scheduled: t}
	}
}

// hasRunForTime reports whether there is a run for a time of the schedule. A manual run that was requested
// for exactly that time counts: there is one run for each second.
func (d *decider) hasRunForTime(t time.Time) bool {
	name := RunName(d.in.Name, t)
	return slices.ContainsFunc(d.in.Runs, func(run Run) bool {
		return run.Name == name || run.Request == "" && run.Scheduled.Equal(t)
	})
}

// newestActiveRun returns the name of the newest active run.
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

// decideReplacements cancels all active runs but the newest. It does so at any time: the operator
// may have stopped after it created that run.
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
	// maxRunName is the maximum length of the name of a run, which leaves room for suffixes;
	// timestampFormat is the format of its end.
	maxRunName      = 52
	timestampFormat = "20060102150405"
)

// RunName returns the name of the run of a Schedule for a time: the name of the Schedule,
// shortened with a hash if necessary, and the time in UTC, at most 52 characters in all.
func RunName(schedule string, scheduled time.Time) string {
	suffix := "-" + scheduled.UTC().Format(timestampFormat)
	if limit := maxRunName - len(suffix); len(schedule) > limit {
		schedule = names.ChildName(schedule, limit, schedule)
	}
	return schedule + suffix
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
