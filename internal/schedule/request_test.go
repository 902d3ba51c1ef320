// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// requestedRun returns an active run that was requested at a time, and created at that time.
func requestedRun(at string) Run {
	run := openRun(RunName("nightly", may(at)), at)
	run.Request = formatTime(may(at))
	return run
}

func TestDecide_RunRequest(t *testing.T) {
	const noon, name = "2024-05-02T12:00:00Z", "nightly-20240502120000"
	type outcome struct {
		// create is the name of the created run, and at its time.
		create, at string
		// handled is whether the request is recorded, and run its run.
		handled bool
		run     string
		reason  SkipReason
		cancel  []string
	}
	created := outcome{create: name, at: "2 12:00:00", handled: true, run: name}
	refused := func(reason SkipReason) outcome { return outcome{handled: true, reason: reason} }
	for what, tc := range map[string]struct {
		now, request string
		change       func(*Input)
		want         outcome
		says         []string
	}{
		"none":            {now: "2 12:00"},
		"now":             {now: "2 12:00", request: noon, want: created},
		"in another zone": {now: "2 12:00", request: "2024-05-02T14:00:00+02:00", want: created},
		"a fraction":      {now: "2 12:00", request: "2024-05-02T12:00:00.75Z", want: created},
		"suspended":       {now: "2 12:00", request: noon, change: func(in *Input) { in.Suspended = true }, want: created},
		"handled later": {now: "2 13:00", request: noon, want: outcome{
			create: name, at: "2 13:00:00", handled: true, run: name,
		}},
		"older than the last one": {
			now: "2 12:00", request: noon, change: func(in *Input) { in.LastRunRequest = may("2 12:01") }, want: refused(ReasonOutdated), says: []string{"older than the last one"},
		},
		"a slow clock": {now: "2 11:59", request: noon, want: outcome{
			create: name, at: "2 11:59:00", handled: true, run: name,
		}},

		"no time": {
			now: "2 12:00", request: "now\n", want: refused(ReasonInvalidTime),
			says: []string{`"now\n"`, "2024-05-02T12:00:00Z"},
		},
		"older than the Schedule": {
			now: "2 12:00", request: "2024-05-01T11:59:59Z", want: refused(ReasonOutdated),
			says: []string{"2024-05-01T11:59:59Z", "older than the Schedule"},
		},
		"older than the Schedule, with its run": {now: "2 12:00", request: "2024-05-01T11:00:00Z", change: func(in *Input) {
			in.Runs = []Run{requestedRun("1 11:00")}
		}, want: refused(ReasonOutdated)},
		"as old as the Schedule": {now: "2 12:00", request: "2024-05-01T12:00:00Z", want: outcome{
			create: "nightly-20240501120000", at: "2 12:00:00", handled: true, run: "nightly-20240501120000",
		}},
		"the future": {
			now: "2 11:58", request: noon, want: refused(ReasonFutureTime),
			says: []string{"2024-05-02T12:00:00Z", "2024-05-02T11:58:00Z", "clocks"},
		},
		"after the deadline": {
			now: "2 13:01", request: noon, change: func(in *Input) { in.StartingDeadline = time.Hour }, want: refused(ReasonMissedDeadline),
			says: []string{"1h0m0s", "request a run again"},
		},
		"before the deadline": {
			now: "2 13:00", request: noon, change: func(in *Input) { in.StartingDeadline = time.Hour },
			want: outcome{create: name, at: "2 13:00:00", handled: true, run: name},
		},

		"another is open": {now: "2 12:00", request: noon, change: func(in *Input) { in.Runs = []Run{openRun("old", "2 03:00")} }, want: created},
		"another is open, Forbid": {now: "2 12:00", request: noon, change: func(in *Input) {
			in.ConcurrencyPolicy, in.Runs = ForbidConcurrent, []Run{openRun("old", "2 03:00")}
		}, want: refused(ReasonConcurrencyForbid), says: []string{"old has not ended", "concurrencyPolicy is Forbid"}},
		"another has finished, Forbid": {now: "2 12:00", request: noon, change: func(in *Input) {
			in.ConcurrencyPolicy, in.Runs = ForbidConcurrent, []Run{{Name: "old", Scheduled: may("2 03:00"), State: Failed}}
		}, want: created},
		"another is open, Replace": {now: "2 12:00", request: noon, change: func(in *Input) {
			in.ConcurrencyPolicy, in.Runs = ReplaceConcurrent, []Run{openRun("old", "2 03:00")}
		}, want: outcome{create: name, at: "2 12:00:00", handled: true, run: name, cancel: []string{"old"}}},
		"another is open, suspended, Replace": {now: "2 12:00", request: noon, change: func(in *Input) {
			in.Suspended, in.ConcurrencyPolicy, in.Runs = true, ReplaceConcurrent, []Run{openRun("old", "2 03:00")}
		}, want: outcome{create: name, at: "2 12:00:00", handled: true, run: name, cancel: []string{"old"}}},
		"one of the same second is open, Replace": {now: "2 12:00", request: "2024-05-02T12:00:01Z", change: func(in *Input) {
			in.ConcurrencyPolicy, in.Runs = ReplaceConcurrent, []Run{requestedRun("2 12:00")}
		}, want: outcome{
			create: "nightly-20240502120001", at: "2 12:00:01", handled: true, run: "nightly-20240502120001", cancel: []string{name},
		}},

		"created, but not recorded": {now: "2 12:01", request: noon, change: func(in *Input) {
			in.ConcurrencyPolicy, in.StartingDeadline, in.Runs = ForbidConcurrent, 10*time.Second, []Run{requestedRun("2 12:00")}
		}, want: outcome{handled: true, run: name}},
		"there is one for the same second": {now: "2 12:01", request: "2024-05-02T12:00:00.5Z", change: func(in *Input) {
			in.Runs = []Run{requestedRun("2 12:00")}
		}, want: outcome{handled: true, run: name, reason: ReasonRunExists}, says: []string{name, "same second"}},
		"there is a scheduled one for the same second": {now: "2 12:00", request: "2024-05-02T03:00:00Z", change: func(in *Input) {
			in.ConcurrencyPolicy, in.Runs = ForbidConcurrent, []Run{openRun("nightly-20240502030000", "2 03:00")}
		}, want: outcome{handled: true, run: "nightly-20240502030000", reason: ReasonRunExists}},

		"a run is due": {now: "3 03:00", request: "2024-05-03T02:59:59Z", want: outcome{create: "nightly-20240503030000", at: "3 03:00:00"}},
		"a run is due for the same second": {now: "3 03:00", request: "2024-05-03T03:00:00Z", want: outcome{
			create: "nightly-20240503030000", at: "3 03:00:00",
		}},
		"a run is due, and the request is invalid": {now: "3 03:00", request: "now", want: outcome{
			create: "nightly-20240503030000", at: "3 03:00:00", handled: true, reason: ReasonInvalidTime,
		}},
		"a run waits, Forbid": {now: "3 03:01", request: "2024-05-03T03:01:00Z", change: func(in *Input) {
			in.ConcurrencyPolicy, in.Runs = ForbidConcurrent, []Run{openRun("old", "2 03:00")}
		}, want: refused(ReasonConcurrencyForbid)},
	} {
		t.Run(what, func(t *testing.T) {
			in := nightly(t, tc.now, tc.change)
			plain := Decide(in)
			in.RunRequest = tc.request
			d := Decide(in)
			got := outcome{cancel: d.Cancel}
			if d.Create != nil {
				got.create, got.at = d.Create.Name, clock(d.Create.Scheduled)
				if wantRequest := map[bool]string{true: tc.request}[plain.Create == nil]; d.Create.Request != wantRequest {
					t.Errorf("the run is for request %q, want %q", d.Create.Request, wantRequest)
				}
			}
			var message string
			if r := d.RunRequest; r != nil {
				got.handled, got.run, got.reason, message = true, r.RunName, r.Reason, r.Message
				if r.Value != tc.request || (message == "") != (r.Reason == "") {
					t.Errorf("handled %+v", r)
				}
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(outcome{})); diff != "" {
				t.Error(diff)
			}
			for _, want := range tc.says {
				if !strings.Contains(message, want) {
					t.Errorf("%q does not say %q", message, want)
				}
			}
			d.Create, d.RunRequest, d.Cancel = plain.Create, nil, plain.Cancel
			if diff := cmp.Diff(plain, d); diff != "" {
				t.Errorf("the request changed the schedule:\n%s", diff)
			}
		})
	}
}

// TestDecide_ManualRuns decides with and without manual runs: they do not change when the next run is due.
func TestDecide_ManualRuns(t *testing.T) {
	ended := requestedRun("2 23:30")
	ended.State, ended.Completed = Succeeded, may("2 23:40")
	never := func(in *Input) { in.LastSchedule = time.Time{} }
	for name, tc := range map[string]struct {
		now    string
		change func(*Input)
		runs   []Run
		want   told
	}{
		"not yet": {"2 23:50", nil, []Run{ended}, told{Schedule: "2 03:00:00", Wake: "3 03:00:00"}},
		"on time": {"3 03:00", nil, []Run{ended}, told{Create: "3 03:00:00", Schedule: "3 03:00:00", Wake: "4 03:00:00"}},
		"intervals": {"2 23:50", func(in *Input) { in.Cron = parsed(t, "@every 10h", "") }, []Run{ended}, told{
			Create: "2 23:00:00", Schedule: "2 23:00:00", Wake: "3 09:00:00",
		}},
		"new, skip": {"2 23:50", func(in *Input) { never(in); in.SkipImmediately = true }, []Run{ended}, told{
			Skip: "2 23:50:00", Wake: "3 03:00:00", Skipped: []string{"SkipImmediately 2 03:00:00"},
		}},
		"new": {"2 23:50", never, []Run{ended}, told{Create: "2 03:00:00", Schedule: "2 03:00:00", Wake: "3 03:00:00"}},
		"open, Forbid": {"3 03:00", func(in *Input) { in.ConcurrencyPolicy = ForbidConcurrent }, []Run{requestedRun("2 23:30")}, told{
			Schedule: "2 03:00:00", Wake: "4 03:00:00", Skipped: []string{"ConcurrencyForbid 3 03:00:00"},
		}},
		"open, Replace": {"3 03:00", func(in *Input) { in.ConcurrencyPolicy = ReplaceConcurrent }, []Run{requestedRun("2 23:30")}, told{
			Create: "3 03:00:00", Schedule: "3 03:00:00", Wake: "4 03:00:00", Cancel: []string{"nightly-20240502233000"},
		}},
		"newer than a scheduled one, Replace": {"3 03:01", func(in *Input) { in.ConcurrencyPolicy = ReplaceConcurrent }, []Run{
			requestedRun("3 03:01"), openRun("nightly-20240503030000", "3 03:00"),
		}, told{Schedule: "3 03:00:00", Wake: "4 03:00:00", Cancel: []string{"nightly-20240503030000"}}},
		"open, of the second that is due, Forbid": {"3 03:00", func(in *Input) { in.ConcurrencyPolicy = ForbidConcurrent }, []Run{requestedRun("3 03:00")}, told{
			Schedule: "3 03:00:00", Wake: "4 03:00:00",
		}},
		"created in the second that is due": {"3 03:00", nil, []Run{
			{Name: "nightly-20240503025950", Scheduled: may("3 03:00"), Request: "2024-05-03T02:59:50Z"},
		}, told{Create: "3 03:00:00", Schedule: "3 03:00:00", Wake: "4 03:00:00"}},
		"in excess": {"2 23:50", func(in *Input) { in.KeepSucceeded = new(int32) }, []Run{ended}, told{
			Schedule: "2 03:00:00", Wake: "3 03:00:00", Delete: []string{ended.Name},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			in := nightly(t, tc.now, tc.change)
			in.Runs = tc.runs
			if diff := cmp.Diff(tc.want, short(Decide(in))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
