// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"
	"time"
)

// clockTolerance is by how much a clock may have been put back so that it is waited until it
// shows again what it showed before.
const clockTolerance = time.Hour

// decideSince finds out up to when all times are settled, and what is recorded of that.
func (d *decider) decideSince() {
	in := d.in
	d.out.LastSchedule, d.out.LastSkipped = dropFutureTime(in.LastSchedule, in.Now), dropFutureTime(in.LastSkipped, in.Now)
	for _, run := range in.Runs {
		d.out.LastSchedule = laterTime(d.out.LastSchedule, run.Scheduled)
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
		// Everything that is known was written by a clock that was wrong. It may be that
		// nothing was missed.
		d.skipAllUntilNow()
	}
}

// skipAllUntilNow makes all times up to now settled.
func (d *decider) skipAllUntilNow() {
	d.since = laterTime(d.since, d.in.Now)
	d.out.LastSkipped = d.since
}

// shouldSkipMissed reports whether the Schedule is new or was paused, and is not to make up for
// anything.
func (d *decider) shouldSkipMissed() bool {
	return d.in.SkipImmediately && !d.in.Paused && (d.in.WasPaused || d.hasNoHistory())
}

// hasNoHistory reports whether nothing was ever recorded of the Schedule.
func (d *decider) hasNoHistory() bool { return d.hasNoRuns() && d.in.LastSkipped.IsZero() }

// hasNoRuns reports whether there never was a run.
func (d *decider) hasNoRuns() bool { return d.in.LastSchedule.IsZero() && len(d.in.Runs) == 0 }

// dropFutureTime returns a time unless it lies so far in the future that it must have been
// written by a clock that was wrong.
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
// times of runs that are not believed. These would make the run of a wrong clock the
// newest for ever.
func normalizedInput(in Input) Input {
	for _, t := range []*time.Time{&in.Now, &in.Created, &in.LastSchedule, &in.LastSkipped} {
		*t = t.Truncate(time.Second).UTC()
	}
	in.Runs = dropFutureRunTimes(in.Runs, in.Now)
	return in
}

// dropFutureRunTimes returns runs without the times that are not believed.
func dropFutureRunTimes(runs []Run, now time.Time) []Run {
	runs = slices.Clone(runs)
	for i := range runs {
		run := &runs[i]
		run.Scheduled = dropFutureTime(run.Scheduled.Truncate(time.Second).UTC(), now)
		run.Completed = dropFutureTime(run.Completed, now)
	}
	return runs
}
