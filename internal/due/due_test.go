// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package due_test

import (
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/due"
)

// TestTimeUntilDue sets the wall clock between two questions: the recorded time moves, as the clock of the
// process cannot be set.
func TestTimeUntilDue(t *testing.T) {
	t.Parallel()
	const most = time.Hour
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		recorded time.Duration
		// asked is when it is asked for the first time, and again.
		asked  []time.Duration
		forget bool
		want   time.Duration
	}{
		"right":                             {recorded: 10 * time.Minute, asked: []time.Duration{0, 4 * time.Minute}, want: 6 * time.Minute},
		"over":                              {recorded: 10 * time.Minute, asked: []time.Duration{0, 11 * time.Minute}, want: -time.Minute},
		"over when it is first asked for":   {recorded: -time.Minute, asked: []time.Duration{0}, want: -time.Minute},
		"a year ahead":                      {recorded: 8760 * time.Hour, asked: []time.Duration{0}, want: most},
		"a year ahead, and half is over":    {recorded: 8760 * time.Hour, asked: []time.Duration{0, 30 * time.Minute}, want: 30 * time.Minute},
		"a year ahead, and all is over":     {recorded: 8760 * time.Hour, asked: []time.Duration{0, most}, want: 0},
		"a year ahead, and it is forgotten": {recorded: 8760 * time.Hour, asked: []time.Duration{0, most}, forget: true, want: most},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var times due.Tracker[string]
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

// TestTimeUntilDue_RecordedAgain: another time under the same key is waited for from its beginning.
func TestTimeUntilDue_RecordedAgain(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var times due.Tracker[string]
	times.TimeUntilDue("a", start, time.Hour, start)
	if got := times.TimeUntilDue("a", start.Add(10*time.Minute), time.Hour, start.Add(time.Minute)); got != 9*time.Minute {
		t.Errorf("got %s, want 9m", got)
	}
}
