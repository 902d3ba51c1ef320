// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package polls

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

// Call is what a plugin was asked for.
type Call byte

// The calls.
const (
	Start    Call = 'S'
	Progress Call = 'P'
	Cancel   Call = 'C'
)

// Event is one call that a plugin got.
type Event struct {
	Call Call
	// Operation is the ID of the operation, which has no spaces.
	Operation string
	// At is when the plugin got the call.
	At time.Time
}

// Log is a file that events are appended to. It is safe for concurrent use.
type Log struct{ file *os.File }

// Open opens a file, or makes it. What is in it stays.
func Open(path string) (*Log, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the file of calls: %w", err)
	}
	return &Log{file: file}, nil
}

// Add records an event at once, because a plugin does not know when the benchmark is over.
func (l *Log) Add(e Event) error {
	if _, err := fmt.Fprintf(l.file, "%c %s %d\n", e.Call, e.Operation, e.At.UnixNano()); err != nil {
		return fmt.Errorf("writing down a call: %w", err)
	}
	return nil
}

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }

// Read returns the events in a file, in the order in which they were written down.
func Read(path string) ([]Event, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the file of calls: %w", err)
	}
	defer func() { _ = file.Close() }()
	var events []Event
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var e Event
		var call rune
		var at int64
		if _, err := fmt.Sscanf(lines.Text(), "%c %s %d", &call, &e.Operation, &at); err != nil {
			return nil, fmt.Errorf("reading the file of calls, line %d: %w", len(events)+1, err)
		}
		e.Call, e.At = Call(call), time.Unix(0, at)
		events = append(events, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the file of calls: %w", err)
	}
	return events, nil
}
