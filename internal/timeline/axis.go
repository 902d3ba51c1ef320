// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"strings"
	"time"
)

const day = 24 * time.Hour

// tickSteps are the times between two ticks, besides multiples of ten of the first three.
var tickSteps = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day,
}

// Elapsed returns the time from the start to the end.
func (t *Timeline) Elapsed() time.Duration { return t.End.Sub(t.Start) }

// chooseTicks returns at most most+1 times since the start, at equal distances from 0 on.
func (t *Timeline) chooseTicks(most int) []time.Duration {
	total := t.Elapsed()
	step := tickStep(total, most)
	var ticks []time.Duration
	for i := range total/step + 1 {
		ticks = append(ticks, i*step)
	}
	return ticks
}

// tickStep returns the smallest sensible step of which there are not more than most in a total.
func tickStep(total time.Duration, most int) time.Duration {
	for unit := time.Microsecond; unit < time.Second; unit *= 10 {
		for _, step := range []time.Duration{unit, 2 * unit, 5 * unit} {
			if total/step <= time.Duration(most) {
				return step
			}
		}
	}
	for _, step := range tickSteps {
		if total/step <= time.Duration(most) {
			return step
		}
	}
	step := 5 * day
	for total/step > time.Duration(most) {
		step *= 2
	}
	return step
}

// formatTick formats a multiple of a step without zeros: "1m30s", "2h".
func formatTick(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	case d > day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// FormatDuration formats a duration with about three digits: "850ms", "12.3s", "2m05s", "3d04h".
func FormatDuration(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d.Microseconds())
	case d.Round(100*time.Microsecond) < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond))
	case d.Round(time.Millisecond) < time.Second:
		return fmt.Sprintf("%dms", d.Round(time.Millisecond).Milliseconds())
	case d.Round(10*time.Millisecond) < 10*time.Second:
		return fmt.Sprintf("%.2fs", d.Seconds())
	case d.Round(100*time.Millisecond) < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d.Round(time.Second) < time.Hour:
		d = d.Round(time.Second)
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d.Round(time.Minute) < day:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	d = d.Round(time.Hour)
	return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
}
