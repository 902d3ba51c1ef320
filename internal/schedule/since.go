// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"
	"time"
)

// tolerance is by how much a clock may have been put back so that it is waited until it
// shows again what it showed before.
const tolerance = time.Hour

// settle finds out up to when all times are settled, and what is recorded of that.
func (d *decider) settle() {
	in := d.in
	d.out.LastSchedule, d.out.LastSkipped = believed(in.LastSchedule, in.Now), believed(in.LastSkipped, in.Now)
	for _, run := range in.Runs {
		d.out.LastSchedule = later(d.out.LastSchedule, run.Scheduled)
	}
	known := later(d.out.LastSchedule, d.out.LastSkipped)
	d.since = later(known, believed(in.Created, in.Now))
	switch {
	case d.skips():
		if missed := in.Cron.Missed(d.since, in.Now); !missed.Latest.IsZero() {
			d.skip(ReasonSkipImmediately, missed.Latest,
				"nothing ran at %s, and it is not made up for: skipImmediately is true", shown(missed.Latest))
		}
		d.restart()
	case d.since.IsZero(), known.IsZero() && !d.fresh():
		// Everything that is known was written by a clock that was wrong. It may be that
		// nothing was missed.
		d.restart()
	}
}

// restart makes all times up to now settled.
func (d *decider) restart() {
	d.since = later(d.since, d.in.Now)
	d.out.LastSkipped = d.since
}

// skips reports whether the Schedule is new or was paused, and is not to make up for
// anything.
func (d *decider) skips() bool {
	return d.in.SkipImmediately && !d.in.Paused && (d.in.WasPaused || d.fresh())
}

// fresh reports whether nothing was ever recorded of the Schedule.
func (d *decider) fresh() bool { return d.neverRan() && d.in.LastSkipped.IsZero() }

// neverRan reports whether there never was a run.
func (d *decider) neverRan() bool { return d.in.LastSchedule.IsZero() && len(d.in.Runs) == 0 }

// believed returns a time unless it lies so far in the future that it must have been
// written by a clock that was wrong.
func believed(t, now time.Time) time.Time {
	if t.Sub(now) > tolerance {
		return time.Time{}
	}
	return t
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// normalized returns an input with the precision in which times are recorded, and without
// times of runs that are not believed. These would make the run of a wrong clock the
// newest for ever.
func normalized(in Input) Input {
	for _, t := range []*time.Time{&in.Now, &in.Created, &in.LastSchedule, &in.LastSkipped} {
		*t = t.Truncate(time.Second).UTC()
	}
	in.Runs = believable(in.Runs, in.Now)
	return in
}

// believable returns runs without the times that are not believed.
func believable(runs []Run, now time.Time) []Run {
	runs = slices.Clone(runs)
	for i := range runs {
		run := &runs[i]
		run.Scheduled = believed(run.Scheduled.Truncate(time.Second).UTC(), now)
		run.Completed = believed(run.Completed, now)
	}
	return runs
}
