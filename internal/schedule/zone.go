// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import "time"

// search looks for the next time, minute by minute in the hours that match, and hour by
// hour, day by day or month by month otherwise.
type search struct {
	c Cron
	// t is the time that is looked at, a whole minute in the time zone.
	t time.Time
	// from and to are between which times clocks are not changed around t; zero if they
	// never were, or never will be.
	from, to time.Time
	// change is by how much clocks were put forward at from; negative is back.
	change time.Duration
}

func newSearch(c Cron, after time.Time) *search {
	fraction := time.Duration(after.Second())*time.Second + time.Duration(after.Nanosecond())
	s := &search{c: c}
	s.goTo(after.Add(time.Minute - fraction))
	return s
}

// goTo looks at another time, which is later.
func (s *search) goTo(t time.Time) {
	s.t = t
	if !s.from.IsZero() && t.Before(s.to) {
		return
	}
	if s.from, s.to = t.ZoneBounds(); s.from.IsZero() {
		s.change = 0
		return
	}
	_, now := s.from.Zone()
	_, before := s.from.Add(-time.Second).Zone()
	s.change = time.Duration(now-before) * time.Second
}

// fires reports whether it fires at t.
func (s *search) fires() bool {
	if !s.c.choosesHours() {
		return s.c.matches(s.t)
	}
	if s.change > 0 && s.t.Equal(s.from) && s.leftOut() {
		return true
	}
	again := s.change < 0 && s.t.Sub(s.from) < -s.change
	return !again && s.c.matches(s.t)
}

// leftOut reports whether it names a time that no clock shows, because clocks were put
// forward at t.
func (s *search) leftOut() bool {
	// UTC shows what clocks would have shown.
	shown := time.Date(s.t.Year(), s.t.Month(), s.t.Day(), s.t.Hour(), s.t.Minute(), 0, 0, time.UTC)
	for m := shown.Add(-s.change); m.Before(shown); m = m.Add(time.Minute) {
		if s.c.matches(m) {
			return true
		}
	}
	return false
}

// step goes to the next time that may be one.
func (s *search) step() {
	year, month, day := s.t.Date()
	hour, minute, _ := s.t.Clock()
	switch {
	case s.c.months&(1<<month) == 0:
		s.skipTo(time.Date(year, month+1, 1, 0, 0, 0, 0, s.c.zone))
	case !s.c.matchesDay(month, day, s.t.Weekday()):
		s.skipTo(time.Date(year, month, day+1, 0, 0, 0, 0, s.c.zone))
	case s.c.hours&(1<<hour) == 0:
		s.skipTo(s.t.Add(time.Duration(60-minute) * time.Minute))
	default:
		s.goTo(s.t.Add(time.Minute))
	}
}

// skipTo goes to a later time, but not past one at which clocks change: only up to there
// is it known what they show.
func (s *search) skipTo(t time.Time) {
	if s.to.After(s.t) && t.After(s.to) {
		t = s.to
	}
	if !t.After(s.t) {
		t = s.t.Add(time.Minute)
	}
	s.goTo(t)
}
