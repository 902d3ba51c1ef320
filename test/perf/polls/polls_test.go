// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package polls_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/test/perf/polls"
)

// at is a second of the window, which has 60 of them.
func at(second float64) time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(second * float64(time.Second)))
}

// calls returns the events of one operation: a start, then polls.
func calls(operation string, start float64, seconds ...float64) []polls.Event {
	events := []polls.Event{{Call: polls.Start, Operation: operation, At: at(start)}}
	for _, s := range seconds {
		events = append(events, polls.Event{Call: polls.Progress, Operation: operation, At: at(s)})
	}
	return events
}

func TestCount(t *testing.T) {
	window := polls.Window{From: at(0), To: at(60), Late: 20 * time.Second}
	for name, tc := range map[string]struct {
		events      []polls.Event
		polls, late int
		share       float64
	}{
		"on time":                       {events: calls("a", -30, -10, 0, 10, 20, 30, 40, 50, 59), polls: 7},
		"exactly in time":               {events: calls("a", -30, -20, 0, 20, 40), polls: 3},
		"one late":                      {events: calls("a", -30, -5, 15.5, 35, 55), polls: 3, late: 1, share: 100. / 3},
		"the first is late":             {events: calls("a", -30, 5, 25, 45), polls: 3, late: 1, share: 100. / 3},
		"asked no more":                 {events: calls("a", -30, -5, 10, 20), polls: 3, late: 1, share: 100. / 3},
		"asked before only":             {events: calls("a", -30, -5), polls: 1, late: 1, share: 100},
		"never asked":                   {events: calls("a", -30), polls: 1, late: 1, share: 100},
		"asked again when it was over":  {events: calls("a", -30, -5, 15, 35, 80), polls: 3, late: 1, share: 100. / 3},
		"two that are asked in turn":    {events: append(calls("a", -30, -15, 5, 25, 45), calls("b", -30, -5, 15, 35, 55)...), polls: 6},
		"one of two is polled for both": {events: append(calls("a", -9, 0, 10, 20, 30, 40, 50), calls("b", -30)...), polls: 7, late: 1, share: 100. / 7},
		"a cancel is no poll":           {events: append(calls("a", -9, 0), polls.Event{Call: polls.Cancel, Operation: "a", At: at(10)}), polls: 2, late: 1, share: 50},
		"nothing is not well, but late": {share: 100},
	} {
		t.Run(name, func(t *testing.T) {
			got := window.Count(tc.events)
			if got.Polls != tc.polls || got.Late != tc.late || got.LateShare() != tc.share {
				t.Errorf("%d polls, %d late, %.2f %%, want %d, %d, %.2f %%", got.Polls, got.Late, got.LateShare(), tc.polls, tc.late, tc.share)
			}
		})
	}
}

func TestAdd(t *testing.T) {
	window := polls.Window{From: at(0), To: at(60), Late: 20 * time.Second}
	one, two := window.Count(calls("a", -9, 1, 11, 31, 51)), window.Count(calls("b", -30, 5, 25, 45))
	want := polls.Count{Polls: 7, Late: 1, Gaps: []time.Duration{
		10 * time.Second, 10 * time.Second, 20 * time.Second, 20 * time.Second, 35 * time.Second, 20 * time.Second, 20 * time.Second,
	}}
	if diff := cmp.Diff(want, one.Add(two)); diff != "" {
		t.Errorf("the sum (-want +got):\n%s", diff)
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calls")
	want := append(calls("a-1", 0, 1.000000001, 2), polls.Event{Call: polls.Cancel, Operation: "b", At: at(3)})
	for _, part := range [][]polls.Event{want[:2], want[2:]} { // a plugin may restart
		log, err := polls.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range part {
			if err := log.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	got, err := polls.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what was read (-want +got):\n%s", diff)
	}
	if n := polls.Operations(got, polls.Progress); n != 1 {
		t.Errorf("%d operations were asked about, want 1", n)
	}
}

func TestRead_InvalidLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calls")
	if err := os.WriteFile(path, []byte("P a 1\nP a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := polls.Read(path); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("error %v, want one about line 2", err)
	}
}
