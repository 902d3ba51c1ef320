// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/timeline"
)

// objects is the table of the objects of a run by resource.
type objects struct {
	Count, Size string
	Resources   []resource
}

// resource is a row of the table.
type resource struct {
	Name, Count, Size, Took string
	Outcomes                []outcome
	Segments                []segment
}

// outcome is how many objects had an outcome of a restore.
type outcome struct {
	Name  string
	Count int
	State timeline.State
}

// segment is a part of the bar of a row.
type segment struct {
	Percent float64
	State   timeline.State
}

// newObjects returns the table, the most frequent resource first.
func newObjects(summaries results.ResourceSummaries) *objects {
	sorted := slices.SortedFunc(slices.Values(summaries), func(a, b results.ResourceSummary) int {
		return cmp.Or(cmp.Compare(b.Objects, a.Objects), cmp.Compare(a.Resource, b.Resource))
	})
	most := max(sorted[0].Objects, 1)
	count, size := 0, int64(0)
	table := &objects{}
	for i := range sorted {
		s := &sorted[i]
		count += s.Objects
		size += s.Bytes
		row := resource{
			Name: s.Resource, Count: fmt.Sprint(s.Objects), Size: formatBytes(s.Bytes),
			Took: timeline.FormatDuration(time.Duration(s.Seconds * float64(time.Second))),
		}
		rest := s.Objects
		for _, name := range slices.Sorted(maps.Keys(s.Outcomes)) {
			n := s.Outcomes[name]
			rest -= n
			row.Outcomes = append(row.Outcomes, outcome{name, n, outcomeState(name)})
			row.Segments = append(row.Segments, segment{percentOf(n, most), outcomeState(name)})
		}
		if rest > 0 {
			row.Segments = append(row.Segments, segment{percentOf(rest, most), timeline.StatePassed})
		}
		table.Resources = append(table.Resources, row)
	}
	table.Count, table.Size = fmt.Sprint(count), formatBytes(size)
	return table
}

// percentOf returns a percentage between 0 and 100, whatever a file has.
func percentOf(n, most int) float64 {
	return min(max(100*float64(n)/float64(most), 0), 100)
}

// outcomeState returns the state that determines the color of an outcome of a restore.
func outcomeState(name string) timeline.State {
	switch name {
	case "created", "updated", "recreated":
		return timeline.StateSucceeded
	case "failed":
		return timeline.StateFailed
	case "skipped":
		return timeline.StateStopped
	}
	return timeline.StatePassed
}

// formatBytes formats a size with three digits: "1.21 MiB".
func formatBytes(size int64) string {
	if size < 1<<10 {
		return fmt.Sprintf("%d B", size)
	}
	value := float64(size)
	unit := ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value /= 1 << 10; value < 1<<10 {
			break
		}
	}
	return fmt.Sprintf("%.*f %s", max(2-len(fmt.Sprint(int64(value)))+1, 0), value, unit)
}
