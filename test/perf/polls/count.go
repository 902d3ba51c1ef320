// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package polls

import (
	"slices"
	"time"
)

// Window is a time for which polls are counted, From included and To not.
type Window struct {
	From, To time.Time
	// Late is the time after which a poll is late, from the one before it or, for the
	// first one, from the start of the operation.
	Late time.Duration
}

// Count is what a plugin got in a Window.
type Count struct {
	// Polls are those that came and those that did not come in time, Late those of them
	// that were late.
	Polls, Late int
	// Gaps are the times between those that came and the ones before them.
	Gaps []time.Duration
}

// LateShare is the percentage of all polls that was late. Without any polls,
// it is 100.
func (c Count) LateShare() float64 {
	if c.Polls == 0 {
		return 100
	}
	return 100 * float64(c.Late) / float64(c.Polls)
}

// Add adds up.
func (c Count) Add(other Count) Count {
	return Count{
		Polls: c.Polls + other.Polls, Late: c.Late + other.Late,
		Gaps: slices.Concat(c.Gaps, other.Gaps),
	}
}

// Count counts the polls in the window of operations that continue until its end. Who
// stops asking is late, too: a poll that is overdue at the end of the window counts.
func (w Window) Count(events []Event) Count {
	var c Count
	last := map[string]time.Time{}
	for _, e := range events {
		if e.Call == Cancel || !e.At.Before(w.To) {
			continue
		}
		if e.Call == Progress && !e.At.Before(w.From) {
			gap := e.At.Sub(last[e.Operation])
			c.Gaps = append(c.Gaps, gap)
			c.add(gap > w.Late)
		}
		last[e.Operation] = e.At
	}
	for _, at := range last {
		if w.To.Sub(at) > w.Late {
			c.add(true)
		}
	}
	return c
}

func (c *Count) add(late bool) {
	c.Polls++
	if late {
		c.Late++
	}
}

// Operations returns how many operations got a call.
func Operations(events []Event, call Call) int {
	seen := map[string]bool{}
	for _, e := range events {
		if e.Call == call {
			seen[e.Operation] = true
		}
	}
	return len(seen)
}
