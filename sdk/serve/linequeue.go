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
	// maxQueuedBytes is how many bytes of lines wait for an operator that does not read them.
	maxQueuedBytes = 1 << 20
	// maxLineBytes is the largest line that is handed over; the rest is cut. It is the limit that
	// the operator has for the lines of processes.
	maxLineBytes = 64 << 10
	// lineOverheadBytes is what a line takes beside its text: without it, many short lines would make
	// a message that is larger than a client of gRPC accepts.
	lineOverheadBytes = 128
)

// logLineQueue is the queue of lines for one connection of an operator.
type logLineQueue struct {
	// nonEmpty has a value if there may be lines.
	nonEmpty chan struct{}

	mu    sync.Mutex
	lines []*pluginpb.LogLine
	size  int
	// dropped counts the lines of each open call for which there was no room.
	dropped map[string]int
}

func newLogLineQueue() *logLineQueue {
	return &logLineQueue{nonEmpty: make(chan struct{}, 1), dropped: map[string]int{}}
}

// enqueueLogLine queues a line, which is copied, or drops it.
func (f *logLineQueue) enqueueLogLine(callID string, line []byte) {
	line = line[:min(len(line), maxLineBytes)]
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.size+len(line)+lineOverheadBytes > maxQueuedBytes {
		f.dropped[callID]++
		return
	}
	f.enqueueLocked(&pluginpb.LogLine{CallId: callID, Text: bytes.Clone(line)})
}

// enqueueCallEnd queues the end of a call, for which there is always room.
func (f *logLineQueue) enqueueCallEnd(callID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.dropped[callID]; n > 0 {
		delete(f.dropped, callID)
		f.enqueueLocked(&pluginpb.LogLine{CallId: callID, Text: fmt.Appendf(nil,
			`{"@level":"warn","@message":"%d lines of this call are missing here: they were logged faster than they could be sent"}`, n)})
	}
	f.enqueueLocked(&pluginpb.LogLine{CallId: callID, End: true})
}

// enqueueLocked is called with mu held.
func (f *logLineQueue) enqueueLocked(line *pluginpb.LogLine) {
	f.lines = append(f.lines, line)
	f.size += len(line.GetText()) + lineOverheadBytes
	select {
	case f.nonEmpty <- struct{}{}:
	default:
	}
}

// takeQueuedLines returns what is queued, and empties the queue.
func (f *logLineQueue) takeQueuedLines() []*pluginpb.LogLine {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := f.lines
	f.lines, f.size = nil, 0
	return lines
}
