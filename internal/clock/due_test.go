// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package clock_test

import (
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/clock"
)

// TestTimeUntilDue sets the wall clock between two calls. The test moves the recorded time instead,
// because the monotonic clock cannot be set.
func TestTimeUntilDue(t *testing.T) {
	t.Parallel()
	const most = time.Hour
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		recorded time.Duration
		// asked are the times of the calls.
		asked  []time.Duration
		forget bool
		want   time.Duration
	}{
		"right":                   {recorded: 10 * time.Minute, asked: []time.Duration{0, 4 * time.Minute}, want: 6 * time.Minute},
		"over":                    {recorded: 10 * time.Minute, asked: []time.Duration{0, 11 * time.Minute}, want: -time.Minute},
		"over at the first call":  {recorded: -time.Minute, asked: []time.Duration{0}, want: -time.Minute},
		"a year ahead":            {recorded: 8760 * time.Hour, asked: []time.Duration{0}, want: most},
		"a year ahead, half over": {recorded: 8760 * time.Hour, asked: []time.Duration{0, 30 * time.Minute}, want: 30 * time.Minute},
		"a year ahead, all over":  {recorded: 8760 * time.Hour, asked: []time.Duration{0, most}, want: 0},
		"a year ahead, forgotten": {recorded: 8760 * time.Hour, asked: []time.Duration{0, most}, forget: true, want: most},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var times clock.DueTracker[string]
			var got time.Duration
			for _, at := range tc.asked {
				got = times.TimeUntilDue("a", start.Add(tc.recorded), most, start.Add(at))
				if tc.forget {
					times.Forget("a")
				}
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestTimeUntilDue_RecordedAgain: another time under the same key starts a new wait.
func TestTimeUntilDue_RecordedAgain(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var times clock.DueTracker[string]
	times.TimeUntilDue("a", start, time.Hour, start)
	if got := times.TimeUntilDue("a", start.Add(10*time.Minute), time.Hour, start.Add(time.Minute)); got != 9*time.Minute {
		t.Errorf("got %s, want 9m", got)
	}
}
