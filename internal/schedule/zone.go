// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/bits"
	"time"
)

// search looks for the next time, over the months, days, hours and minutes that do not
// match.
type search struct {
	c Cron
	// t is the time that is looked at, and shown what clocks show then, as if that were
	// UTC: a whole minute. Only their difference needs to be looked up.
	t, shown time.Time
	// from and to are between which times clocks are not changed around t; zero if they
	// never were, or never will be.
	from, to time.Time
	// change is by how much clocks were put forward at from; negative is back.
	change time.Duration
}

// newSearch begins with the first whole minute after a time.
func newSearch(c Cron, after time.Time) *search {
	after = after.In(c.zone)
	s := &search{c: c}
	fraction := time.Duration(after.Second())*time.Second + time.Duration(after.Nanosecond())
	s.begin(after.Add(time.Minute - fraction))
	return s
}

// begin looks at a time of which it is not known what clocks show.
func (s *search) begin(t time.Time) {
	t = t.In(s.c.zone)
	if s.from, s.to = t.ZoneBounds(); !s.to.IsZero() && !s.to.After(t) {
		// Where rules take the place of tables, a leap year ends a day early.
		s.to = t.Add(24 * time.Hour)
	}
	offset := offsetAt(t)
	s.t, s.shown, s.change = t, t.UTC().Add(offset), 0
	if !s.from.IsZero() {
		s.change = offset - offsetAt(s.from.Add(-time.Second))
	}
}

func offsetAt(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// fires reports whether it fires at t.
func (s *search) fires() bool {
	if !s.c.choosesHours() {
		return s.c.matches(s.shown)
	}
	if s.change > 0 && s.t.Equal(s.from) && s.leftOut() {
		return true
	}
	again := s.change < 0 && s.t.Sub(s.from) < -s.change
	return !again && s.c.matches(s.shown)
}

// leftOut reports whether it names a time that no clock shows, because clocks were put
// forward at t.
func (s *search) leftOut() bool {
	for m := s.shown.Add(-s.change); m.Before(s.shown); m = m.Add(time.Minute) {
		if s.c.matches(m) {
			return true
		}
	}
	return false
}

// step goes to the next time that may be one.
func (s *search) step() {
	year, month, day := s.shown.Date()
	hour, minute, _ := s.shown.Clock()
	switch {
	case s.c.months&(1<<month) == 0:
		s.skipTo(time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC))
	case !s.c.matchesDay(month, day, s.shown.Weekday()):
		s.skipTo(time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC))
	case s.c.hours&(1<<hour) == 0:
		s.skipTo(s.shown.Add(time.Duration(60-minute) * time.Minute))
	default:
		// The next minute that matches in this hour, or the next hour.
		minutes := bits.TrailingZeros64(s.c.minutes>>(minute+1)) + 1
		s.skipTo(s.shown.Add(time.Duration(min(minutes, 60-minute)) * time.Minute))
	}
}

// skipTo goes to when clocks show a later time, but not past a time at which they change:
// only up to there is it known what they show.
func (s *search) skipTo(shown time.Time) {
	t := s.t.Add(shown.Sub(s.shown))
	if !s.to.IsZero() && !t.Before(s.to) {
		s.begin(s.to)
		return
	}
	s.t, s.shown = t, shown
}
