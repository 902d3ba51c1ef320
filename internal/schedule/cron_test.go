// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNext(t *testing.T) {
	const berlin, newYork = "Europe/Berlin", "America/New_York"
	for name, tc := range map[string]struct {
		expression, zone, after string
		want                    []string
	}{
		"only after": {"0 3 * * *", "", "2024-05-01T03:00:00Z", []string{"2024-05-02T03:00:00Z"}},
		"a fraction of a second before": {
			"0 3 * * *", "", "2024-05-01T02:59:59.9Z",
			[]string{"2024-05-01T03:00:00Z"},
		},
		"a month ends": {
			"0 0 31 * *", "", "2024-01-31T00:00:00Z",
			[]string{"2024-03-31T00:00:00Z", "2024-05-31T00:00:00Z", "2024-07-31T00:00:00Z", "2024-08-31T00:00:00Z"},
		},
		"a year ends": {
			"59 23 * * *", "", "2024-12-30T23:59:00Z",
			[]string{"2024-12-31T23:59:00Z", "2025-01-01T23:59:00Z"},
		},
		"a year ends elsewhere": {
			"0 0 1 1 *", "Pacific/Auckland", "2024-06-01T00:00:00Z",
			[]string{"2024-12-31T11:00:00Z", "2025-12-31T11:00:00Z"},
		},
		"leap days": {
			"0 12 29 2 *", "", "2024-02-29T12:00:00Z",
			[]string{"2028-02-29T12:00:00Z", "2032-02-29T12:00:00Z"},
		},
		"a year that ends with 00": {"0 12 29 2 *", "", "2096-02-29T12:00:00Z", []string{"2104-02-29T12:00:00Z"}},
		"the last day of February": {
			"0 0 28,29 2 *", "", "2023-02-01T00:00:00Z",
			[]string{"2023-02-28T00:00:00Z", "2024-02-28T00:00:00Z", "2024-02-29T00:00:00Z", "2025-02-28T00:00:00Z"},
		},

		"Berlin, spring, skipped": {
			"30 2 * * *", berlin, "2024-03-30T00:00:00Z",
			[]string{"2024-03-30T01:30:00Z", "2024-03-31T01:00:00Z", "2024-04-01T00:30:00Z"},
		},
		"Berlin, spring, several skipped": {
			"*/20 2,3 * * *", berlin, "2024-03-30T23:00:00Z",
			[]string{"2024-03-31T01:00:00Z", "2024-03-31T01:20:00Z", "2024-03-31T01:40:00Z", "2024-04-01T00:00:00Z"},
		},
		"Berlin, spring, not skipped": {
			"30 3 * * *", berlin, "2024-03-30T12:00:00Z",
			[]string{"2024-03-31T01:30:00Z", "2024-04-01T01:30:00Z"},
		},
		"Berlin, spring, on another day": {"30 2 * * 1", berlin, "2024-03-30T12:00:00Z", []string{"2024-04-01T00:30:00Z"}},
		"Berlin, spring, hourly": {
			"30 * * * *", berlin, "2024-03-31T00:00:00Z",
			[]string{"2024-03-31T00:30:00Z", "2024-03-31T01:30:00Z", "2024-03-31T02:30:00Z"},
		},
		"Berlin, autumn, twice": {
			"30 2 * * *", berlin, "2024-10-26T12:00:00Z",
			[]string{"2024-10-27T00:30:00Z", "2024-10-28T01:30:00Z"},
		},
		"Berlin, autumn, in between": {"30 2 * * *", berlin, "2024-10-27T00:45:00Z", []string{"2024-10-28T01:30:00Z"}},
		"Berlin, autumn, when clocks go back": {
			"0 3 * * *", berlin, "2024-10-26T12:00:00Z",
			[]string{"2024-10-27T02:00:00Z"},
		},
		"Berlin, autumn, hourly": {
			"30 * * * *", berlin, "2024-10-27T00:00:00Z",
			[]string{"2024-10-27T00:30:00Z", "2024-10-27T01:30:00Z", "2024-10-27T02:30:00Z"},
		},
		"Berlin, autumn, every two hours": {
			"0 */2 * * *", berlin, "2024-10-26T22:00:00Z",
			[]string{"2024-10-27T00:00:00Z", "2024-10-27T03:00:00Z"},
		},
		"New York, spring": {
			"30 2 * * *", newYork, "2024-03-09T12:00:00Z",
			[]string{"2024-03-10T07:00:00Z", "2024-03-11T06:30:00Z"},
		},
		"New York, autumn": {
			"30 1 * * *", newYork, "2024-11-02T12:00:00Z",
			[]string{"2024-11-03T05:30:00Z", "2024-11-04T06:30:00Z"},
		},
		"New York, autumn, every 15 minutes": {
			"*/15 * * * *", newYork, "2024-11-03T05:30:00Z",
			[]string{"2024-11-03T05:45:00Z", "2024-11-03T06:00:00Z", "2024-11-03T06:15:00Z"},
		},
		"by the hour, a day of 23 hours": {
			"@every 24h", newYork, "2024-03-09T12:00:00Z",
			[]string{"2024-03-10T12:00:00Z", "2024-03-11T12:00:00Z"},
		},
		"midnight is skipped": {
			"@daily", "America/Santiago", "2024-09-07T12:00:00Z",
			[]string{"2024-09-08T04:00:00Z", "2024-09-09T03:00:00Z"},
		},
		"midnight happens once, 23:00 twice": {
			"0 0,23 * * *", "America/Santiago", "2024-04-06T12:00:00Z",
			[]string{"2024-04-07T02:00:00Z", "2024-04-07T04:00:00Z", "2024-04-08T03:00:00Z"},
		},
		"half an hour is skipped": {
			"15 2 * * *", "Australia/Lord_Howe", "2024-10-05T12:00:00Z",
			[]string{"2024-10-05T15:30:00Z", "2024-10-06T15:15:00Z"},
		},
		"half an hour happens twice": {
			"45 1 * * *", "Australia/Lord_Howe", "2024-04-06T12:00:00Z",
			[]string{"2024-04-06T14:45:00Z", "2024-04-07T15:15:00Z"},
		},
		"leap days, when there are only rules for clocks": {
			"0 12 29 2 *", berlin, "2044-02-29T11:00:00Z",
			[]string{"2048-02-29T11:00:00Z", "2052-02-29T11:00:00Z"},
		},
		"a day is skipped": {
			"0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z",
			[]string{"2011-12-30T10:00:00Z", "2012-12-29T22:00:00Z"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, next := parsed(t, tc.expression, tc.zone), at(tc.after)
			var got []string
			for range tc.want {
				next = c.Next(next)
				got = append(got, next.Format(time.RFC3339))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := (Cron{}).Next(at("2024-01-01T00:00:00Z")); !got.IsZero() {
		t.Errorf("the zero Cron fires at %v", got)
	}
}

// slowly returns all times of some days, by checking each minute of a wall clock: times that the
// clock skips come when it changes, and those of certain hours once.
func slowly(c Cron, from, to time.Time) []time.Time {
	var times []time.Time
	shown := map[string]bool{}
	last := wall(from.Add(-time.Minute), c)
	for t := from; t.Before(to); t = t.Add(time.Minute) {
		now := wall(t, c)
		fires := c.matchesTime(now) && (!c.hasFixedHours() || !shown[now.String()])
		for m := last.Add(time.Minute); c.hasFixedHours() && m.Before(now); m = m.Add(time.Minute) {
			fires = fires || c.matchesTime(m)
		}
		if fires {
			times = append(times, t)
		}
		last, shown[now.String()] = now, true
	}
	return times
}

// wall returns what a clock shows, as a time in UTC.
func wall(t time.Time, c Cron) time.Time {
	_, offset := t.In(c.zone).Zone()
	return t.Add(time.Duration(offset) * time.Second)
}

func TestNext_WallClock(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 1))
	field := func(low, high int) string {
		text := strconv.Itoa(low + random.IntN(high-low+1))
		switch random.IntN(4) {
		case 0:
			return "*"
		case 1:
			return "*/" + strconv.Itoa(1+random.IntN(high))
		case 2:
			return text + "," + strconv.Itoa(low+random.IntN(high-low+1))
		}
		return text
	}
	changes := map[string][]string{
		"Europe/Berlin":       {"2024-03-31T01:00:00Z", "2024-10-27T01:00:00Z"},
		"America/New_York":    {"2048-12-31T12:00:00Z", "2024-03-10T07:00:00Z", "2024-11-03T06:00:00Z"},
		"America/Santiago":    {"2024-09-08T04:00:00Z", "2024-04-07T03:00:00Z"},
		"Australia/Lord_Howe": {"2024-10-05T15:30:00Z", "2024-04-06T15:00:00Z"},
		"Asia/Kathmandu":      {"2024-02-28T18:15:00Z"},
		"":                    {"2024-12-31T00:00:00Z"},
	}
	for zone, times := range changes {
		for range 100 {
			expression := field(0, 59) + " " + field(0, 4) + " * * *"
			if random.IntN(3) == 0 {
				expression = field(0, 59) + " " + field(0, 23) + " " + field(1, 31) + " * " + field(0, 6)
			}
			c := parsed(t, expression, zone)
			from := at(times[random.IntN(len(times))]).Add(-36 * time.Hour)
			to := from.Add(72 * time.Hour)
			// No time from before counts as repeated: the days are complete.
			want := slowly(c, from, to)
			var got []time.Time
			for next := c.Next(from.Add(-time.Second)); next.Before(to); next = c.Next(next) {
				got = append(got, next)
			}
			if !slices.EqualFunc(got, want, time.Time.Equal) {
				t.Fatalf("%q in %q from %v:\n got %v\nwant %v", expression, zone, from, got, want)
			}
			missedLikeNext(t, c, from, to, want)
		}
	}
}

// missedLikeNext checks MissedTimes against all times.
func missedLikeNext(t *testing.T, c Cron, from, to time.Time, all []time.Time) {
	t.Helper()
	since, now := from.Add(-time.Second), to.Add(-time.Second)
	got := c.MissedTimes(since, now)
	if got.Count != min(len(all), MaxMissed+1) || len(all) > 0 && !got.Latest.Equal(all[len(all)-1]) {
		t.Fatalf("missed %+v, want the last and number of %v", got, all)
	}
}

func TestMissedTimes(t *testing.T) {
	for name, tc := range map[string]struct {
		expression, since, now, latest string
		count                          int
		tooMany                        bool
	}{
		"none":                {"0 3 * * *", "2024-05-01T03:00:00Z", "2024-05-02T02:59:59Z", "", 0, false},
		"this second":         {"0 3 * * *", "2024-05-01T03:00:00Z", "2024-05-02T03:00:00Z", "2024-05-02T03:00:00Z", 1, false},
		"some":                {"0 3 * * *", "2024-05-01T03:00:00Z", "2024-05-05T12:00:00Z", "2024-05-05T03:00:00Z", 4, false},
		"a hundred":           {"0 * * * *", "2024-05-01T00:00:00Z", "2024-05-05T04:00:00Z", "2024-05-05T04:00:00Z", 100, false},
		"more than a hundred": {"0 * * * *", "2024-05-01T00:00:00Z", "2024-05-05T05:00:00Z", "2024-05-05T05:00:00Z", 101, true},
		"a year of minutes":   {"* * * * *", "2023-05-01T00:00:00Z", "2024-05-01T00:00:30Z", "2024-05-01T00:00:00Z", 101, true},
		"those of January": {
			"* * * 1 *", "2023-05-01T00:00:00Z", "2024-12-01T00:00:00Z",
			"2024-01-31T23:59:00Z", 101, true,
		},
		"all since year one": {"0 0 29 2 *", "0001-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "2024-02-29T00:00:00Z", 101, true},
		"intervals":          {"@every 7h", "2024-05-01T00:00:01Z", "2024-05-02T00:00:00Z", "2024-05-01T21:00:01Z", 3, false},
		"no interval":        {"@every 7h", "2024-05-01T00:00:01Z", "2024-05-01T07:00:00Z", "", 0, false},
		"a year of seconds":  {"@every 1s", "2023-05-01T00:00:00Z", "2024-05-01T00:00:30Z", "2024-05-01T00:00:30Z", 101, true},
		"clock set back":     {"* * * * *", "2024-05-01T03:00:00Z", "2024-05-01T02:00:00Z", "", 0, false},
		"back, intervals":    {"@every 1s", "2024-05-01T03:00:00Z", "2024-05-01T02:00:00Z", "", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := parsed(t, tc.expression, "").MissedTimes(at(tc.since), at(tc.now))
			var latest time.Time
			if tc.latest != "" {
				latest = at(tc.latest)
			}
			if !got.Latest.Equal(latest) || got.Count != tc.count || got.IsCapped() != tc.tooMany {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestNextSince(t *testing.T) {
	for name, tc := range map[string]struct{ expression, since, now, want string }{
		"after now":                 {"0 3 * * *", "2024-05-01T03:00:00Z", "2024-05-09T12:00:00Z", "2024-05-10T03:00:00Z"},
		"after since, set back":     {"0 3 * * *", "2024-05-09T03:00:00Z", "2024-05-09T02:30:00Z", "2024-05-10T03:00:00Z"},
		"intervals since":           {"@every 7h", "2024-05-01T00:00:01Z", "2024-05-02T00:00:00Z", "2024-05-02T04:00:01Z"},
		"intervals, this second":    {"@every 7h", "2024-05-01T00:00:01Z", "2024-05-01T07:00:01Z", "2024-05-01T14:00:01Z"},
		"intervals since, set back": {"@every 7h", "2024-05-01T03:00:00Z", "2024-05-01T02:00:00Z", "2024-05-01T10:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parsed(t, tc.expression, "").NextSince(at(tc.since), at(tc.now)); !got.Equal(at(tc.want)) {
				t.Errorf("got %v, want %s", got, tc.want)
			}
		})
	}
}
