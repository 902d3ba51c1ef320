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
	// maxQueuedBytes is the maximum size of the lines that wait for an operator that does not
	// read them.
	maxQueuedBytes = 1 << 20
	// maxLineBytes is the size to which lines are truncated. The operator has the same limit for
	// the lines of processes.
	maxLineBytes = 64 << 10
	// lineOverheadBytes is the overhead of a line beside its text. Without it, many short lines
	// would add up to a message that is larger than a gRPC client accepts.
	lineOverheadBytes = 128
)

// logLineQueue is the queue of log lines for one connection of an operator.
type logLineQueue struct {
	// nonEmpty has a value if there may be lines.
	nonEmpty chan struct{}

	mu    sync.Mutex
	lines []*pluginpb.LogLine
	size  int
	// dropped counts the dropped lines of each open call.
	dropped map[string]int
}

func newLogLineQueue() *logLineQueue {
	return &logLineQueue{nonEmpty: make(chan struct{}, 1), dropped: map[string]int{}}
}

// enqueueLogLine queues a copy of a line, or drops the line if the queue is full.
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

// enqueueCallEnd queues the end of a call, even if the queue is full.
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

// takeQueuedLines returns the queued lines and empties the queue.
func (f *logLineQueue) takeQueuedLines() []*pluginpb.LogLine {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := f.lines
	f.lines, f.size = nil, 0
	return lines
}
