// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/test/perf/polls"
	"github.com/grapnel-dev/grapnel/test/perf/raw"
)

func TestSumStatusWrites(t *testing.T) {
	const metrics = `# HELP apiserver_request_total [STABLE] Counter of apiserver requests.
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="apiserver",dry_run="",group="grapnel.dev",resource="asyncoperations",scope="resource",subresource="status",verb="PATCH",version="v1alpha1"} 70
apiserver_request_total{code="409",component="apiserver",dry_run="",group="grapnel.dev",resource="asyncoperations",scope="resource",subresource="status",verb="PATCH",version="v1alpha1"} 5
apiserver_request_total{code="200",component="apiserver",dry_run="",group="grapnel.dev",resource="asyncoperations",scope="resource",subresource="",verb="PATCH",version="v1alpha1"} 1000
apiserver_request_total{code="200",component="apiserver",dry_run="",group="grapnel.dev",resource="backups",scope="resource",subresource="status",verb="PATCH",version="v1alpha1"} 1.2e+01
apiserver_request_total{code="200",component="apiserver",dry_run="",group="grapnel.dev",resource="plugins",scope="resource",subresource="status",verb="PATCH",version="v1alpha1"} 1000
apiserver_request_terminations_total{code="200",resource="backups",subresource="status"} 1000
`
	if got, err := sumStatusWrites([]byte(metrics)); err != nil || got != 87 {
		t.Errorf("%v writes, %v, want 87", got, err)
	}
	if _, err := sumStatusWrites([]byte(strings.ReplaceAll(metrics, "} 70", "} many"))); err == nil {
		t.Error("a counter that is no number is no error")
	}
}

// TestFollowing_ReadHungPlugin has three plugins with one operation each.
func TestFollowing_ReadHungPlugin(t *testing.T) {
	e := &environment{dir: t.TempDir()}
	if err := os.Mkdir(filepath.Dir(callsOf(e, 0)), 0o755); err != nil {
		t.Fatal(err)
	}
	begin := time.Unix(1_700_000_000, 0)
	for i, seconds := range [][]int{{}, {5, 15, 25, 35, 45, 55}, {5, 15, 40, 55}} {
		log, err := polls.Open(callsOf(e, i))
		if err != nil {
			t.Fatal(err)
		}
		write := func(call polls.Call, second int) {
			if err := log.Add(polls.Event{Call: call, Operation: "a", At: begin.Add(time.Duration(second) * time.Second)}); err != nil {
				t.Fatal(err)
			}
		}
		write(polls.Start, 0)
		for _, s := range seconds {
			write(polls.Progress, s)
		}
		if i == 2 { // it is not asked yet
			continue
		}
		write(polls.Cancel, 70)
	}
	f := following{
		operations: operations{count: 3, plugins: 3}, cores: 0.5, writesPerSecond: 7, growth: 3 << 20,
		limit:   raw.CallTimes{Cores: 0.25},
		started: 6, startLimit: raw.SendTimes{Seconds: 4}, cancelled: 9, cancelLimit: raw.SendTimes{Seconds: 6},
	}
	window := polls.Window{From: begin, To: begin.Add(time.Minute), Late: lateAfter}
	if err := f.read(e, window); err == nil || !strings.Contains(err.Error(), "bench-operations-02 was asked to cancel 0 operations of 1") {
		t.Errorf("error %v, want one about the plugin that was not asked", err)
	}
	log, err := polls.Open(callsOf(e, 2))
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Add(polls.Event{Call: polls.Cancel, Operation: "a", At: window.To}); err != nil {
		t.Fatal(err)
	}
	f.counts = nil
	if err := f.read(e, window); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, figure := range f.figures() {
		got = append(got, fmt.Sprintf("%g/%g", figure.Value, figure.Ratio))
	}
	if want := "6/1.5 9/1.5 10/0 25/0 0.5/2 3/0 7/0"; strings.Join(got, " ") != want {
		t.Errorf("figures and ratios are %s, want %s", got, want)
	}
	if got := f.rates(); !strings.Contains(got, "polls of 2 plugins") || !strings.Contains(got, "median 10.0 s") || !strings.Contains(got, "longest 25.0 s") {
		t.Errorf("rates are %s", got)
	}
}

func TestWork_Check(t *testing.T) {
	good := work{
		mix: mix{objects: 1, namespaces: 1, rounds: 1}, large: mix{objects: 1, namespaces: 1},
		operations: operations{count: 1, plugins: 2},
		deletions:  deletions{stored: 1, expired: 1},
		snapshots:  snapshots{claims: 1, parallelism: 1},
	}
	for name, tc := range map[string]struct {
		change func(*work)
		wrong  bool
	}{
		"all":                 {change: func(*work) {}},
		"operations only":     {change: func(w *work) { w.only = onlyOperations }},
		"no such part":        {change: func(w *work) { w.only = "all" }, wrong: true},
		"no objects":          {change: func(w *work) { w.objects = 0 }, wrong: true},
		"deletions only":      {change: func(w *work) { w.only = onlyDeletions }},
		"no large cluster":    {change: func(w *work) { w.large.namespaces = 0 }, wrong: true},
		"no operations":       {change: func(w *work) { w.operations.count = 0 }, wrong: true},
		"none is stored":      {change: func(w *work) { w.deletions.stored = 0 }, wrong: true},
		"no claims":           {change: func(w *work) { w.snapshots.claims = 0 }, wrong: true},
		"none expires":        {change: func(w *work) { w.deletions.expired = 0 }, wrong: true},
		"only what hangs":     {change: func(w *work) { w.operations.plugins = 1 }, wrong: true},
		"more than are named": {change: func(w *work) { w.operations.plugins = 101 }, wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := good
			tc.change(&w)
			if err := w.check(); (err != nil) != tc.wrong {
				t.Errorf("error %v, want one: %t", err, tc.wrong)
			}
		})
	}
}
