// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/bits"
	"time"
)

// timeSearch searches the next matching time. It skips months, days, hours and minutes that do
// not match.
type timeSearch struct {
	c Cron
	// t is the current time, a whole minute, and wallClock is the time that clocks show then, as if
	// it were UTC. Only their difference needs to be looked up.
	t, wallClock time.Time
	// zoneStart and zoneEnd are the times around t between which clocks do not change; zero if
	// they never did, or never will.
	zoneStart, zoneEnd time.Time
	// zoneChange is by how much clocks were set forward at zoneStart; negative means back.
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

// startAt sets the current time and looks up what clocks show then.
func (s *timeSearch) startAt(t time.Time) {
	t = t.In(s.c.zone)
	if s.zoneStart, s.zoneEnd = t.ZoneBounds(); !s.zoneEnd.IsZero() && !s.zoneEnd.After(t) {
		// When rules replace the table of transitions, a leap year ends a day early.
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

// isDue reports whether the schedule fires at t.
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

// isSkippedByDST reports whether the expression names a time that no clock shows, because clocks
// were set forward at t.
func (s *timeSearch) isSkippedByDST() bool {
	for m := s.wallClock.Add(-s.zoneChange); m.Before(s.wallClock); m = m.Add(time.Minute) {
		if s.c.matchesTime(m) {
			return true
		}
	}
	return false
}

// advanceToCandidate advances to the next possible time.
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
		// Advance to the next matching minute in this hour, or to the next hour.
		minutes := bits.TrailingZeros64(s.c.minutes>>(minute+1)) + 1
		s.advanceTo(s.wallClock.Add(time.Duration(min(minutes, 60-minute)) * time.Minute))
	}
}

// advanceTo advances to when clocks show a later time, but not past a change of clocks: what they
// show is only known up to there.
func (s *timeSearch) advanceTo(shown time.Time) {
	t := s.t.Add(shown.Sub(s.wallClock))
	if !s.zoneEnd.IsZero() && !t.Before(s.zoneEnd) {
		s.startAt(s.zoneEnd)
		return
	}
	s.t, s.wallClock = t, shown
}
