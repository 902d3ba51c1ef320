// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"
	"time"
)

// clockTolerance is the largest change of a clock that was set back for which the operator waits
// until the clock shows its earlier time again.
const clockTolerance = time.Hour

// decideSince determines the time up to which all times are settled, and what is recorded of it.
func (d *decider) decideSince() {
	in := d.in
	d.out.LastSchedule, d.out.LastSkipped = dropFutureTime(in.LastSchedule, in.Now), dropFutureTime(in.LastSkipped, in.Now)
	for _, run := range in.Runs {
		if run.Request == "" {
			d.out.LastSchedule = laterTime(d.out.LastSchedule, run.Scheduled)
		}
	}
	known := laterTime(d.out.LastSchedule, d.out.LastSkipped)
	d.since = laterTime(known, dropFutureTime(in.Created, in.Now))
	switch {
	case d.shouldSkipMissed():
		if missed := in.Cron.MissedTimes(d.since, in.Now); !missed.Latest.IsZero() {
			d.addSkip(ReasonSkipImmediately, missed.Latest,
				"nothing ran at %s, and it is not made up for: skipImmediately is true", formatTime(missed.Latest))
		}
		d.skipAllUntilNow()
	case d.since.IsZero(), known.IsZero() && !d.hasNoHistory():
		// All recorded times were written by a wrong clock. It is possible that nothing was
		// missed.
		d.skipAllUntilNow()
	}
}

// skipAllUntilNow marks all times up to now as settled.
func (d *decider) skipAllUntilNow() {
	d.since = laterTime(d.since, d.in.Now)
	d.out.LastSkipped = d.since
}

// shouldSkipMissed reports whether the Schedule is new or was suspended, and must not make up for
// missed times.
func (d *decider) shouldSkipMissed() bool {
	return d.in.SkipImmediately && !d.in.Suspended && (d.in.WasSuspended || d.hasNoHistory())
}

// hasNoHistory reports whether nothing was ever recorded for the Schedule.
func (d *decider) hasNoHistory() bool { return d.hasNoRuns() && d.in.LastSkipped.IsZero() }

// hasNoRuns reports whether there never was a run for a time of the schedule.
func (d *decider) hasNoRuns() bool {
	return d.in.LastSchedule.IsZero() && !slices.ContainsFunc(d.in.Runs, func(run Run) bool { return run.Request == "" })
}

// dropFutureTime returns t, or zero if t is so far in the future that it must have been written
// by a wrong clock.
func dropFutureTime(t, now time.Time) time.Time {
	if t.Sub(now) > clockTolerance {
		return time.Time{}
	}
	return t
}

func laterTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// normalizedInput returns an input with the precision in which times are recorded, and without
// the implausible times of runs. Those would make a run from a wrong clock the newest one
// forever.
func normalizedInput(in Input) Input {
	for _, t := range []*time.Time{&in.Now, &in.Created, &in.LastSchedule, &in.LastSkipped} {
		*t = t.Truncate(time.Second).UTC()
	}
	in.Runs = dropFutureRunTimes(in.Runs, in.Now)
	return in
}

// dropFutureRunTimes returns runs without implausible times.
func dropFutureRunTimes(runs []Run, now time.Time) []Run {
	runs = slices.Clone(runs)
	for i := range runs {
		run := &runs[i]
		run.Scheduled = dropFutureTime(run.Scheduled.Truncate(time.Second).UTC(), now)
		run.Completed = dropFutureTime(run.Completed, now)
	}
	return runs
}
