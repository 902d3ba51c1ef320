// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"slices"
	"time"
)

// NewestSucceeded returns the names of that many of the newest runs that succeeded and are
// not being deleted: what keepLast protects, from expiry as well. A run whose data is missing
// does not count, and is protected with the others: it may come back. One of a time that has
// not come yet, by a clock that was wrong, is the oldest.
func NewestSucceeded(runs []Run, count int, now time.Time) map[string]bool {
	names := map[string]bool{}
	for _, run := range slices.Backward(newest(believable(runs, now), len(runs), Succeeded)) {
		if count <= 0 {
			break
		}
		names[run.Name] = true
		if !run.Lost {
			count--
		}
	}
	return names
}

// tooMany returns the names of the runs that are to be deleted, oldest first.
func tooMany(in Input) []string {
	kept := NewestSucceeded(in.Runs, int(in.KeepLast), in.Now)
	for _, keep := range []struct {
		count   *int32
		classes []Class
	}{{in.KeepSucceeded, []Class{Succeeded, Partial}}, {in.KeepFailed, []Class{Failed}}} {
		limit := len(in.Runs)
		if keep.count != nil {
			limit = int(*keep.count)
		}
		for _, run := range newest(in.Runs, limit, keep.classes...) {
			kept[run.Name] = true
		}
	}
	var names []string
	for _, run := range sorted(in.Runs) {
		if run.Class != Open && !run.Deleting && !run.InUse && !kept[run.Name] {
			names = append(names, run.Name)
		}
	}
	return names
}

// newest returns that many of the newest runs of some classes that are not being deleted.
func newest(runs []Run, count int, classes ...Class) []Run {
	var of []Run
	for _, run := range sorted(runs) {
		if slices.Contains(classes, run.Class) && !run.Deleting {
			of = append(of, run)
		}
	}
	return of[max(0, len(of)-max(0, count)):]
}

// sorted returns runs from the oldest to the newest.
func sorted(runs []Run) []Run { return slices.SortedFunc(slices.Values(runs), compare) }

// compare says which of two runs is older.
func compare(a, b Run) int {
	return cmp.Or(begun(a).Compare(begun(b)), a.Completed.Compare(b.Completed), cmp.Compare(a.Name, b.Name))
}

// begun is about when a run began. Not every run says so, for example one that another
// cluster wrote.
func begun(run Run) time.Time {
	if run.Scheduled.IsZero() {
		return run.Completed
	}
	return run.Scheduled
}
