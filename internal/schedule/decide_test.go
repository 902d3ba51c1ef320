// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"
)

// told is an abridged decision.
type told struct {
	Create         string
	Skipped        []string
	Cancel, Delete []string
	// Schedule and Skip are the recorded times.
	Schedule, Skip, Wake string
}

func short(d Decision) told {
	s := told{Cancel: d.Cancel, Delete: d.Delete, Schedule: clock(d.LastSchedule), Skip: clock(d.LastSkipped), Wake: clock(d.NextScheduleTime)}
	if d.Create != nil {
		s.Create = clock(d.Create.Scheduled)
	}
	for _, skip := range d.Skipped {
		s.Skipped = append(s.Skipped, string(skip.Reason)+" "+clock(skip.Time))
	}
	return s
}

// clock formats times of May 2024 as day and time.
func clock(t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case t.Year() != 2024 || t.Month() != time.May:
		return t.Format(time.DateTime)
	}
	return t.Format("2 15:04:05")
}

// may is a time in May 2024, for example "2 03:00".
func may(text string) time.Time {
	t, err := time.Parse("2006-1 2 15:04", "2024-5 "+text)
	if err != nil {
		panic(err)
	}
	return t
}

// nightly is a Schedule that ran on the second of May, at 3:00 as always.
func nightly(t *testing.T, now string, change func(*Input)) Input {
	t.Helper()
	in := Input{
		Name: "nightly", Now: may(now), Cron: parsed(t, "0 3 * * *", ""),
		Created: may("1 12:00"), LastSchedule: may("2 03:00"),
	}
	if change != nil {
		change(&in)
	}
	return in
}

func openRun(name, scheduled string) Run {
	return Run{Name: name, Scheduled: may(scheduled), State: Active}
}

func TestDecide(t *testing.T) {
	never := func(in *Input) { in.LastSchedule = time.Time{} }
	for name, tc := range map[string]struct {
		now    string
		change func(*Input)
		want   told
	}{
		"not yet": {"3 02:59", nil, told{Schedule: "2 03:00:00", Wake: "3 03:00:00"}},
		"on time": {"3 03:00", nil, told{Create: "3 03:00:00", Schedule: "3 03:00:00", Wake: "4 03:00:00"}},
		"late":    {"3 23:00", nil, told{Create: "3 03:00:00", Schedule: "3 03:00:00", Wake: "4 03:00:00"}},
		"one of several that were missed": {
			"9 12:00", nil,
			told{Create: "9 03:00:00", Schedule: "9 03:00:00", Wake: "10 03:00:00"},
		},
		"new": {"1 12:00", never, told{Wake: "2 03:00:00"}},
		"new, and the operator was unavailable": {
			"2 12:00", never,
			told{Create: "2 03:00:00", Schedule: "2 03:00:00", Wake: "3 03:00:00"},
		},
		"too many": {
			"9 12:00", func(in *Input) { in.Cron = parsed(t, "0 * * * *", "") },
			told{Create: "9 12:00:00", Schedule: "9 12:00:00", Wake: "9 13:00:00", Skipped: []string{"TooManyMissed 9 12:00:00"}},
		},

		"before the deadline": {
			"3 04:00", func(in *Input) { in.StartingDeadline = time.Hour },
			told{Create: "3 03:00:00", Schedule: "3 03:00:00", Wake: "4 03:00:00"},
		},
		"after the deadline": {
			"3 04:01", func(in *Input) { in.StartingDeadline = time.Hour },
			told{Schedule: "2 03:00:00", Skip: "3 03:00:00", Wake: "4 03:00:00", Skipped: []string{"MissedDeadline 3 03:00:00"}},
		},
		"after the deadline, again": {
			"3 04:02",
			func(in *Input) { in.StartingDeadline, in.LastSkipped = time.Hour, may("3 03:00") },
			told{Schedule: "2 03:00:00", Skip: "3 03:00:00", Wake: "4 03:00:00"},
		},
		"after the deadline, intervals stay": {
			"3 04:01",
			func(in *Input) { in.Cron, in.StartingDeadline = parsed(t, "@every 10h", ""), time.Hour },
			told{Schedule: "2 03:00:00", Skip: "2 23:00:00", Wake: "3 09:00:00", Skipped: []string{"MissedDeadline 2 23:00:00"}},
		},
		"too many, after the deadline": {
			"9 12:59",
			func(in *Input) { in.Cron, in.StartingDeadline = parsed(t, "0 * * * *", ""), time.Minute },
			told{Schedule: "2 03:00:00", Skip: "9 12:00:00", Wake: "9 13:00:00", Skipped: []string{"MissedDeadline 9 12:00:00"}},
		},

		"suspended": {
			"3 04:00", func(in *Input) { in.Suspended = true },
			told{Schedule: "2 03:00:00", Skipped: []string{"Suspended 3 03:00:00"}, Wake: "4 03:00:00"},
		},
		"suspended, and nothing is due": {"3 02:00", func(in *Input) { in.Suspended = true }, told{Schedule: "2 03:00:00", Wake: "3 03:00:00"}},
		"suspended, skip later": {
			"3 04:00", func(in *Input) { in.Suspended, in.SkipImmediately, in.WasSuspended = true, true, true },
			told{Schedule: "2 03:00:00", Skipped: []string{"Suspended 3 03:00:00"}, Wake: "4 03:00:00"},
		},
		"no longer suspended": {
			"5 12:00", func(in *Input) { in.WasSuspended = true },
			told{Create: "5 03:00:00", Schedule: "5 03:00:00", Wake: "6 03:00:00"},
		},
		"no longer suspended, skip": {
			"5 12:00", func(in *Input) { in.WasSuspended, in.SkipImmediately = true, true },
			told{Schedule: "2 03:00:00", Skip: "5 12:00:00", Wake: "6 03:00:00", Skipped: []string{"SkipImmediately 5 03:00:00"}},
		},
		"no longer suspended, skip, nothing was due": {
			"3 01:00", func(in *Input) { in.WasSuspended, in.SkipImmediately = true, true },
			told{Schedule: "2 03:00:00", Skip: "3 01:00:00", Wake: "3 03:00:00"},
		},
		"never suspended, skip": {
			"5 12:00", func(in *Input) { in.SkipImmediately = true },
			told{Create: "5 03:00:00", Schedule: "5 03:00:00", Wake: "6 03:00:00"},
		},
		"new, skip": {
			"2 12:00", func(in *Input) { never(in); in.SkipImmediately = true },
			told{Skip: "2 12:00:00", Wake: "3 03:00:00", Skipped: []string{"SkipImmediately 2 03:00:00"}},
		},
		"new, skip, then on time": {
			"3 03:00",
			func(in *Input) { never(in); in.SkipImmediately, in.LastSkipped = true, may("2 12:00") },
			told{Create: "3 03:00:00", Schedule: "3 03:00:00", Skip: "2 12:00:00", Wake: "4 03:00:00"},
		},

		"another is open": {
			"3 03:00", func(in *Input) { in.Runs = []Run{openRun("old", "2 03:00")} },
			told{Create: "3 03:00:00", Schedule: "3 03:00:00", Wake: "4 03:00:00"},
		},
		"another is open, Forbid": {"3 03:00", func(in *Input) {
			in.ConcurrencyPolicy, in.Runs = ForbidConcurrent, []Run{openRun("old", "2 03:00")}
		}, told{Schedule: "2 03:00:00", Wake: "4 03:00:00", Skipped: []string{"ConcurrencyForbid 3 03:00:00"}}},
		"the other has finished, Forbid": {"3 07:00", func(in *Input) {
			in.ConcurrencyPolicy, in.Runs = ForbidConcurrent, []Run{{Name: "old", Scheduled: may("2 03:00"), State: Failed}}
		}, told{Create: "3 03:00:00", Schedule: "3 03:00:00", Wake: "4 03:00:00"}},
		"the other has finished too late, Forbid": {"3 07:00", func(in *Input) {
			in.ConcurrencyPolicy, in.StartingDeadline = ForbidConcurrent, time.Hour
			in.Runs = []Run{{Name: "old", Scheduled: may("2 03:00"), State: Failed}}
		}, told{Schedule: "2 03:00:00", Skip: "3 03:00:00", Wake: "4 03:00:00", Skipped: []string{"MissedDeadline 3 03:00:00"}}},
		"another is open, Replace": {"3 03:00", func(in *Input) {
			in.ConcurrencyPolicy, in.Runs = ReplaceConcurrent, []Run{openRun("b", "2 03:00"), openRun("a", "1 03:00"), {Name: "c", State: Succeeded}}
		}, told{Create: "3 03:00:00", Cancel: []string{"a", "b"}, Schedule: "3 03:00:00", Wake: "4 03:00:00"}},
		"another is still open, Replace": {"3 03:01", func(in *Input) {
			in.ConcurrencyPolicy, in.Runs = ReplaceConcurrent, []Run{openRun("new", "3 03:00"), openRun("old", "2 03:00")}
		}, told{Cancel: []string{"old"}, Schedule: "3 03:00:00", Wake: "4 03:00:00"}},
		"another is open, and nothing is due, Replace": {"3 02:00", func(in *Input) {
			in.ConcurrencyPolicy, in.Runs = ReplaceConcurrent, []Run{openRun("old", "2 03:00")}
		}, told{Schedule: "2 03:00:00", Wake: "3 03:00:00"}},
		"another is open, suspended, Replace": {"3 04:00", func(in *Input) {
			in.ConcurrencyPolicy, in.Suspended, in.Runs = ReplaceConcurrent, true, []Run{openRun("old", "2 03:00")}
		}, told{Schedule: "2 03:00:00", Skipped: []string{"Suspended 3 03:00:00"}, Wake: "4 03:00:00"}},

		"created, but not recorded": {
			"3 03:01", func(in *Input) { in.Runs = []Run{openRun("nightly-20240503030000", "3 03:00")} },
			told{Schedule: "3 03:00:00", Wake: "4 03:00:00"},
		},
		"created, and only the name is left": {
			"3 03:01", func(in *Input) { in.Runs = []Run{{Name: "nightly-20240503030000"}} },
			told{Schedule: "3 03:00:00", Wake: "4 03:00:00"},
		},
		"recreated, with earlier runs": {"9 12:00", func(in *Input) {
			never(in)
			in.Created, in.Runs = may("9 12:00"), []Run{{Name: "old", Scheduled: may("5 03:00"), State: Succeeded}}
		}, told{Schedule: "5 03:00:00", Wake: "10 03:00:00"}},
		"the expression was changed": {
			"3 23:00", func(in *Input) { in.LastSkipped = may("3 22:59") },
			told{Schedule: "2 03:00:00", Skip: "3 22:59:00", Wake: "4 03:00:00"},
		},

		"clock set back by an hour": {"2 02:00", nil, told{Schedule: "2 03:00:00", Wake: "3 03:00:00"}},
		"clock set back by an hour, intervals": {
			"2 02:00", func(in *Input) { in.Cron = parsed(t, "@every 10m", "") },
			told{Schedule: "2 03:00:00", Wake: "2 03:10:00"},
		},
		"clock forward by a year": {
			"3 03:00", func(in *Input) { in.Now = in.Now.AddDate(1, 0, 0) },
			told{
				Create: "2025-05-03 03:00:00", Schedule: "2025-05-03 03:00:00", Wake: "2025-05-04 03:00:00",
				Skipped: []string{"TooManyMissed 2025-05-03 03:00:00"},
			},
		},
		"and back by a year": {"3 02:00", func(in *Input) {
			in.LastSchedule = at("2025-05-03T03:00:00Z")
			in.Runs = []Run{
				{Name: "nightly-20250503030000", Scheduled: at("2025-05-03T03:00:00Z")},
				{Name: "nightly-20240502030000", Scheduled: may("2 03:00"), State: Succeeded},
			}
		}, told{Schedule: "2 03:00:00", Wake: "3 03:00:00"}},
		"back by a year, and nothing is known": {
			"3 04:00", func(in *Input) { in.LastSchedule = at("2025-05-03T03:00:00Z") },
			told{Skip: "3 04:00:00", Wake: "4 03:00:00"},
		},
		"back by a year, and only what was skipped is known": {"3 04:00", func(in *Input) {
			in.LastSchedule, in.LastSkipped = at("2025-05-03T03:00:00Z"), may("2 23:00")
		}, told{Create: "3 03:00:00", Schedule: "3 03:00:00", Skip: "2 23:00:00", Wake: "4 03:00:00"}},
		"created in the future": {
			"3 04:00", func(in *Input) { never(in); in.Created = at("2025-05-03T03:00:00Z") },
			told{Skip: "3 04:00:00", Wake: "4 03:00:00"},
		},
		"back by a year, Replace": {"3 04:00", func(in *Input) {
			in.ConcurrencyPolicy = ReplaceConcurrent
			in.Runs = []Run{{Name: "next-year", Scheduled: at("2025-05-03T03:00:00Z")}, openRun("new", "3 03:00")}
		}, told{Cancel: []string{"next-year"}, Schedule: "3 03:00:00", Wake: "4 03:00:00"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(nightly(t, tc.now, tc.change))
			if diff := cmp.Diff(tc.want, short(d)); diff != "" {
				t.Error(diff)
			}
			if d.Create != nil && d.Create.Name != "nightly-"+d.Create.Scheduled.Format("20060102150405") {
				t.Errorf("the name of the run is %s", d.Create.Name)
			}
		})
	}
}

func TestDecide_SkipMessages(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Input)
		says   []string
	}{
		"suspended": {func(in *Input) { in.Suspended = true }, []string{"2024-05-09T03:00:00Z", "spec.suspend"}},
		"too late": {
			func(in *Input) { in.StartingDeadline = time.Hour },
			[]string{"2024-05-09T03:00:00Z", "1h0m0s", "set a longer one"},
		},
		"too many": {
			func(in *Input) { in.Cron = parsed(t, "* * * * *", "") },
			[]string{"more than 100", "since 2024-05-02T03:00:00Z", "2024-05-09T12:00:00Z", "clock"},
		},
		"forbidden": {
			func(in *Input) { in.ConcurrencyPolicy, in.Runs = ForbidConcurrent, []Run{openRun("old", "2 03:00")} },
			[]string{"2024-05-09T03:00:00Z", "old", "concurrencyPolicy is Forbid"},
		},
		"skip": {
			func(in *Input) { in.SkipImmediately, in.WasSuspended = true, true },
			[]string{"2024-05-09T03:00:00Z", "skipImmediately is true"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(nightly(t, "9 12:00", tc.change))
			if len(d.Skipped) != 1 {
				t.Fatalf("skipped %+v", d.Skipped)
			}
			for _, want := range tc.says {
				if !strings.Contains(d.Skipped[0].Message, want) {
					t.Errorf("%q does not say %q", d.Skipped[0].Message, want)
				}
			}
		})
	}
}

func TestDecide_KeepLimits(t *testing.T) {
	count := func(n int32) *int32 { return &n }
	run := func(name, scheduled string, class RunState, change ...func(*Run)) Run {
		r := Run{Name: name, Scheduled: may(scheduled), State: class, Completed: may(scheduled).Add(time.Hour)}
		for _, c := range change {
			c(&r)
		}
		return r
	}
	inUse, deleting, lost := func(r *Run) { r.InUse = true }, func(r *Run) { r.Deleting = true }, func(r *Run) { r.DataMissing = true }
	five := []Run{
		run("s3", "3 03:00", Succeeded), run("s1", "1 03:00", Succeeded), run("f2", "2 03:00", Failed),
		run("s2", "2 12:00", Succeeded), run("f1", "1 12:00", Failed),
	}
	for name, tc := range map[string]struct {
		runs              []Run
		succeeded, failed *int32
		last              int32
		want              []string
	}{
		"all":                   {five, nil, nil, 0, nil},
		"two and one":           {five, count(2), count(1), 0, []string{"s1", "f1"}},
		"more than there are":   {five, count(9), count(9), 0, nil},
		"none":                  {five, count(0), count(0), 0, []string{"s1", "f1", "f2", "s2", "s3"}},
		"less than none":        {five, count(-1), nil, -1, []string{"s1", "s2", "s3"}},
		"none but the last":     {five, count(0), count(0), 1, []string{"s1", "f1", "f2", "s2"}},
		"the last two, one":     {five, count(1), nil, 2, []string{"s1"}},
		"in part":               {[]Run{run("s1", "1 03:00", Succeeded), run("p1", "2 03:00", Partial), run("p2", "3 03:00", Partial)}, count(2), count(0), 0, []string{"s1"}},
		"in part, not the last": {[]Run{run("s1", "1 03:00", Succeeded), run("p1", "2 03:00", Partial), run("p2", "3 03:00", Partial)}, count(1), count(0), 1, []string{"p1"}},
		"open ones":             {[]Run{run("o1", "1 03:00", Active), run("s1", "2 03:00", Succeeded)}, count(0), count(0), 0, []string{"s1"}},
		"one in use":            {[]Run{run("s1", "1 03:00", Succeeded, inUse), run("s2", "2 03:00", Succeeded)}, count(0), nil, 0, []string{"s2"}},
		"one in use counts":     {[]Run{run("s1", "1 03:00", Succeeded), run("s2", "2 03:00", Succeeded, inUse)}, count(1), nil, 0, []string{"s1"}},
		"one being deleted":     {[]Run{run("s1", "1 03:00", Succeeded, deleting), run("s2", "2 03:00", Succeeded)}, count(1), nil, 0, nil},
		"the newest, deleted":   {[]Run{run("s1", "1 03:00", Succeeded), run("s2", "2 03:00", Succeeded, deleting)}, count(0), nil, 1, nil},
		"the last one, lost":    {[]Run{run("s1", "1 03:00", Succeeded), run("s2", "2 03:00", Succeeded), run("s3", "3 03:00", Succeeded, lost)}, count(0), nil, 1, []string{"s1"}},
		"all lost":              {[]Run{run("s1", "1 03:00", Succeeded, lost), run("s2", "2 03:00", Succeeded, lost)}, count(0), nil, 1, nil},
		"lost, none protected":  {[]Run{run("s1", "1 03:00", Succeeded, lost)}, count(0), nil, 0, []string{"s1"}},
		"of an unknown time":    {[]Run{run("s2", "2 03:00", Succeeded), {Name: "s1", State: Succeeded, Completed: may("1 03:00")}}, count(1), nil, 0, []string{"s1"}},
		"of a wrong clock":      {[]Run{run("s1", "1 03:00", Succeeded), {Name: "s2", State: Succeeded, Scheduled: may("1 03:00").AddDate(1, 0, 0), Completed: may("1 03:00").AddDate(1, 0, 0)}}, count(1), nil, 0, []string{"s2"}},
		"of one time, by name":  {[]Run{run("b", "1 03:00", Succeeded), run("a", "1 03:00", Succeeded)}, count(1), nil, 0, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, suspended := range []bool{false, true} {
				d := Decide(nightly(t, "9 12:00", func(in *Input) {
					in.Runs, in.KeepSucceeded, in.KeepFailed, in.KeepLast, in.Suspended = tc.runs, tc.succeeded, tc.failed, tc.last, suspended
				}))
				if diff := cmp.Diff(tc.want, d.Delete); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestRunName(t *testing.T) {
	berlin := time.FixedZone("", 3600)
	for name, tc := range map[string]struct {
		schedule string
		want     string
	}{
		"short":       {"nightly", "nightly-20240501020000"},
		"with a dot":  {"shop.nightly", "shop.nightly-20240501020000"},
		"just short":  {strings.Repeat("a", 37), strings.Repeat("a", 37) + "-20240501020000"},
		"just long":   {strings.Repeat("a", 38), strings.Repeat("a", 26) + "-" + "365a9c3e2c" + "-20240501020000"},
		"the longest": {strings.Repeat("a-.b", 63) + "c", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := RunName(tc.schedule, time.Date(2024, 5, 1, 3, 0, 0, 0, berlin))
			if tc.want != "" && got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if problems := validation.IsDNS1123Subdomain(got); len(got) > 52 || len(problems) > 0 {
				t.Errorf("%q has %d characters, and: %v", got, len(got), problems)
			}
		})
	}
	one, other := strings.Repeat("a", 60)+"1", strings.Repeat("a", 60)+"2"
	if RunName(one, time.Time{}) == RunName(other, time.Time{}) {
		t.Error("two long names have the same runs")
	}
}
