// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/bits"
	"time"
)

// timeSearch looks for the next time, over the months, days, hours and minutes that do not
// match.
type timeSearch struct {
	c Cron
	// t is the time that is looked at, and shown what clocks show then, as if that were
	// UTC: a whole minute. Only their difference needs to be looked up.
	t, wallClock time.Time
	// zoneStart and to are between which times clocks are not changed around t; zero if they
	// never were, or never will be.
	zoneStart, zoneEnd time.Time
	// zoneChange is by how much clocks were put forward at from; negative is back.
	zoneChange time.Duration
}

// newTimeSearch begins with the first whole minute after a time.
func newTimeSearch(c Cron, after time.Time) *timeSearch {
	after = after.In(c.zone)
	s := &timeSearch{c: c}
	fraction := time.Duration(after.Second())*time.Second + time.Duration(after.Nanosecond())
	s.startAt(after.Add(time.Minute - fraction))
	return s
}

// startAt looks at a time of which it is not known what clocks show.
func (s *timeSearch) startAt(t time.Time) {
	t = t.In(s.c.zone)
	if s.zoneStart, s.zoneEnd = t.ZoneBounds(); !s.zoneEnd.IsZero() && !s.zoneEnd.After(t) {
		// Where rules take the place of tables, a leap year ends a day early.
		s.zoneEnd = t.Add(24 * time.Hour)
	}
	offset := zoneOffsetAt(t)
	s.t, s.wallClock, s.zoneChange = t, t.UTC().Add(offset), 0
	if !s.zoneStart.IsZero() {
		s.zoneChange = offset - zoneOffsetAt(s.zoneStart.Add(-time.Second))
	}
}

func zoneOffsetAt(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// isDue reports whether it fires at t.
func (s *timeSearch) isDue() bool {
	if !s.c.hasFixedHours() {
		return s.c.matchesTime(s.wallClock)
	}
	if s.zoneChange > 0 && s.t.Equal(s.zoneStart) && s.isSkippedByDST() {
		return true
	}
	again := s.zoneChange < 0 && s.t.Sub(s.zoneStart) < -s.zoneChange
	return !again && s.c.matchesTime(s.wallClock)
}

// isSkippedByDST reports whether it names a time that no clock shows, because clocks were put
// forward at t.
func (s *timeSearch) isSkippedByDST() bool {
	for m := s.wallClock.Add(-s.zoneChange); m.Before(s.wallClock); m = m.Add(time.Minute) {
		if s.c.matchesTime(m) {
			return true
		}
	}
	return false
}

// advanceToCandidate goes to the next time that may be one.
func (s *timeSearch) advanceToCandidate() {
	year, month, day := s.wallClock.Date()
	hour, minute, _ := s.wallClock.Clock()
	switch {
	case s.c.months&(1<<month) == 0:
		s.advanceTo(time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC))
	case !s.c.matchesDay(month, day, s.wallClock.Weekday()):
		s.advanceTo(time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC))
	case s.c.hours&(1<<hour) == 0:
		s.advanceTo(s.wallClock.Add(time.Duration(60-minute) * time.Minute))
	default:
		// The next minute that matches in this hour, or the next hour.
		minutes := bits.TrailingZeros64(s.c.minutes>>(minute+1)) + 1
		s.advanceTo(s.wallClock.Add(time.Duration(min(minutes, 60-minute)) * time.Minute))
	}
}

// advanceTo goes to when clocks show a later time, but not past a time at which they change:
// only up to there is it known what they show.
func (s *timeSearch) advanceTo(shown time.Time) {
	t := s.t.Add(shown.Sub(s.wallClock))
	if !s.zoneEnd.IsZero() && !t.Before(s.zoneEnd) {
		s.startAt(s.zoneEnd)
		return
	}
	s.t, s.wallClock = t, shown
}
