// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"slices"
	"time"
)

// NewestSucceeded returns the names of the count newest runs that succeeded and are not being
// deleted: keepLast protects them, also from expiry. A run whose data is missing does not count,
// but is protected with the others, because the data may come back. A run with a time in the
// future, from a wrong clock, counts as the oldest.
func NewestSucceeded(runs []Run, count int, now time.Time) map[string]bool {
	names := map[string]bool{}
	for _, run := range slices.Backward(newestRuns(dropFutureRunTimes(runs, now), len(runs), Succeeded)) {
		if count <= 0 {
			break
		}
		names[run.Name] = true
		if !run.DataMissing {
			count--
		}
	}
	return names
}

// surplusRunNames returns the names of the runs to delete, oldest first.
func surplusRunNames(in Input) []string {
	kept := NewestSucceeded(in.Runs, int(in.KeepLast), in.Now)
	for _, keep := range []struct {
		count   *int32
		classes []RunState
	}{{in.KeepSucceeded, []RunState{Succeeded, Partial}}, {in.KeepFailed, []RunState{Failed}}} {
		limit := len(in.Runs)
		if keep.count != nil {
			limit = int(*keep.count)
		}
		for _, run := range newestRuns(in.Runs, limit, keep.classes...) {
			kept[run.Name] = true
		}
	}
	var names []string
	for _, run := range sortedRuns(in.Runs) {
		if run.State != Active && !run.Deleting && !run.InUse && !kept[run.Name] {
			names = append(names, run.Name)
		}
	}
	return names
}

// newestRuns returns the count newest runs of the given classes that are not being deleted.
func newestRuns(runs []Run, count int, classes ...RunState) []Run {
	var of []Run
	for _, run := range sortedRuns(runs) {
		if slices.Contains(classes, run.State) && !run.Deleting {
			of = append(of, run)
		}
	}
	return of[max(0, len(of)-max(0, count)):]
}

// sortedRuns returns the runs from the oldest to the newest.
func sortedRuns(runs []Run) []Run { return slices.SortedFunc(slices.Values(runs), compareRuns) }

// compareRuns compares two runs by age.
func compareRuns(a, b Run) int {
	return cmp.Or(approximateStart(a).Compare(approximateStart(b)), a.Completed.Compare(b.Completed), cmp.Compare(a.Name, b.Name))
}

// approximateStart returns approximately when a run began. Not every run records it, for example
// one that another cluster wrote.
func approximateStart(run Run) time.Time {
	if run.Scheduled.IsZero() {
		return run.Completed
	}
	return run.Scheduled
}
