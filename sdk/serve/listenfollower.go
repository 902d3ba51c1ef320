// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"fmt"
	"sync"

	pluginpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/plugin/v1"
)

const (
	// maxQueued is how many bytes of lines wait for an operator that does not read them.
	maxQueued = 1 << 20
	// maxLine is the largest line that is handed over; the rest is cut. It is the limit that
	// the operator has for the lines of processes.
	maxLine = 64 << 10
	// lineCost is what a line takes beside its text: without it, many short lines would make
	// a message that is larger than a client of gRPC accepts.
	lineCost = 128
)

// follower is the queue of lines for one connection of an operator.
type follower struct {
	// wake has a value if there may be lines.
	wake chan struct{}

	mu    sync.Mutex
	lines []*pluginpb.LogLine
	size  int
	// dropped counts the lines of each open call for which there was no room.
	dropped map[string]int
}

func newFollower() *follower {
	return &follower{wake: make(chan struct{}, 1), dropped: map[string]int{}}
}

// add queues a line, which is copied, or drops it.
func (f *follower) add(callID string, line []byte) {
	line = line[:min(len(line), maxLine)]
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.size+len(line)+lineCost > maxQueued {
		f.dropped[callID]++
		return
	}
	f.queue(&pluginpb.LogLine{CallId: callID, Text: bytes.Clone(line)})
}

// end queues the end of a call, for which there is always room.
func (f *follower) end(callID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.dropped[callID]; n > 0 {
		delete(f.dropped, callID)
		f.queue(&pluginpb.LogLine{CallId: callID, Text: fmt.Appendf(nil,
			`{"@level":"warn","@message":"%d lines of this call are missing here: they were logged faster than they could be sent"}`, n)})
	}
	f.queue(&pluginpb.LogLine{CallId: callID, End: true})
}

// queue is called with mu held.
func (f *follower) queue(line *pluginpb.LogLine) {
	f.lines = append(f.lines, line)
	f.size += len(line.GetText()) + lineCost
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take returns what is queued, and empties the queue.
func (f *follower) take() []*pluginpb.LogLine {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := f.lines
	f.lines, f.size = nil, 0
	return lines
}
