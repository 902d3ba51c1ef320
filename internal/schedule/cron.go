// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import "time"

const (
	// starBit is set in the days of a parsed expression that does not restrict them.
	starBit = 1 << 63
	// allHoursMask is set in the hours of an expression that does not restrict them.
	allHoursMask = 1<<24 - 1
	// maxYearsAhead is how many years ahead a time is searched: the 29th of February may be
	// eight years away.
	maxYearsAhead = 9
	// MaxMissed is the number up to which missed times are counted.
	MaxMissed = 100
)

// Cron determines when a schedule fires: at certain minutes in a time zone, or in intervals. It
// is immutable and safe for concurrent use. The zero Cron never fires.
type Cron struct {
	minutes, hours, days, months, weekdays uint64
	zone                                   *time.Location
	// every is the interval, in whole seconds; zero if the schedule fires at certain minutes.
	every time.Duration
}

// MissedTimes are the times of a schedule that have passed.
type MissedTimes struct {
	// Latest is the newest of them; zero if there is none.
	Latest time.Time
	// Count is how many there are, at most MaxMissed+1.
	Count int
}

// IsCapped reports whether there are more times than were counted.
func (m MissedTimes) IsCapped() bool { return m.Count > MaxMissed }

// Next returns the first time after the given one at which the schedule fires, in UTC. An interval
// begins at after. The result is zero if there is none; [Parse] rejects such schedules.
func (c Cron) Next(after time.Time) time.Time {
	if c.every > 0 {
		return after.Add(c.every).UTC()
	}
	if c.zone == nil {
		return time.Time{}
	}
	s := newTimeSearch(c, after)
	for end := s.wallClock.Year() + maxYearsAhead; s.wallClock.Year() <= end; {
		if s.isDue() {
			return s.t.UTC()
		}
		s.advanceToCandidate()
	}
	return time.Time{}
}

// NextSince returns the first time after both since and now at which the schedule fires, in UTC;
// zero if there is none. Intervals are counted from since.
func (c Cron) NextSince(since, now time.Time) time.Time {
	if now.Before(since) {
		now = since
	}
	if c.every > 0 {
		return since.Add((now.Sub(since)/c.every + 1) * c.every).UTC()
	}
	return c.Next(now)
}

// MissedTimes returns the times after since up to now. Intervals are counted from since. The
// duration of the call does not depend on how long ago since is. There are no times if since is
// not before now.
func (c Cron) MissedTimes(since, now time.Time) MissedTimes {
	first := c.Next(since)
	if first.IsZero() || first.After(now) {
		return MissedTimes{}
	}
	if c.every > 0 {
		times := now.Sub(since) / c.every
		return MissedTimes{Latest: since.Add(times * c.every).UTC(), Count: int(min(times, MaxMissed+1))}
	}
	m := MissedTimes{Latest: c.latestFireTime(first, now), Count: 1}
	for t := first; t.Before(m.Latest) && m.Count <= MaxMissed; m.Count++ {
		t = c.Next(t)
	}
	return m
}

// latestFireTime returns the newest time up to now at which the schedule fires, given one such time.
func (c Cron) latestFireTime(fired, now time.Time) time.Time {
	// The result of Next changes from up to now to after now at the wanted time, and times
	// are whole seconds.
	low, high := fired.Unix(), now.Unix()
	for low < high {
		middle := low + (high-low)/2
		if next := c.Next(time.Unix(middle, 0)); next.IsZero() || next.After(now) {
			high = middle
		} else {
			low = next.Unix()
		}
	}
	return time.Unix(low, 0).UTC()
}

// matchesTime reports whether the expression matches the time that a clock shows at t.
func (c Cron) matchesTime(t time.Time) bool {
	hour, minute, _ := t.Clock()
	return c.hours&(1<<hour) != 0 && c.minutes&(1<<minute) != 0 && c.matchesDay(t.Month(), t.Day(), t.Weekday())
}

// matchesDay reports whether the expression matches a day. If it restricts days of the month and of
// the week, either match is enough, as everywhere in cron.
func (c Cron) matchesDay(month time.Month, day int, weekday time.Weekday) bool {
	if c.months&(1<<month) == 0 {
		return false
	}
	inMonth, inWeek := c.days&(1<<day) != 0, c.weekdays&(1<<weekday) != 0
	if c.days&starBit != 0 || c.weekdays&starBit != 0 {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}

// hasFixedHours reports whether the expression means times of the day rather than intervals.
func (c Cron) hasFixedHours() bool { return c.hours&allHoursMask != allHoursMask }
