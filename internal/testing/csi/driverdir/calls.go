// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package driverdir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Call is one call of the driver.
type Call struct {
	// ID is unique for the directory.
	ID     string `json:"id"`
	Method string `json:"method"`
	// Subject is the name or the ID in the request, if it has one.
	Subject string `json:"subject,omitempty"`
	// Begin is when the work began: a call that waits for its turn has not begun.
	Begin time.Time `json:"begin"`
	// End is zero while the call is at work, and if the driver was killed meanwhile.
	End time.Time `json:"end,omitzero"`
	// Code is empty while End is zero.
	Code string `json:"code,omitempty"`
	// Message is that of the error.
	Message string `json:"message,omitempty"`
}

// CallsPath returns the path of the log of calls, to which the driver appends each call when it begins, and
// again when it ends.
func (d Dir) CallsPath() string {
	return filepath.Join(string(d), "calls.jsonl")
}

// LoadCalls returns the calls so far, in the order in which they began; with methods, only
// those of these methods.
func (d Dir) LoadCalls(methods ...string) ([]Call, error) {
	content, err := os.ReadFile(d.CallsPath())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the calls: %w", err)
	}
	var calls []Call
	positions := map[string]int{}
	for line := range bytes.Lines(content) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // It is being written.
		}
		var call Call
		if err := json.Unmarshal(line, &call); err != nil {
			return nil, fmt.Errorf("reading the calls: %w", err)
		}
		if len(methods) > 0 && !slices.Contains(methods, call.Method) {
			continue
		}
		if i, begun := positions[call.ID]; begun {
			calls[i] = call
			continue
		}
		positions[call.ID] = len(calls)
		calls = append(calls, call)
	}
	return calls, nil
}

// MaxParallel returns how many of the calls were at work at the same time. One without an end
// is at work until now.
func MaxParallel(calls []Call) int {
	type change struct {
		at    time.Time
		delta int
	}
	var changes []change
	for _, call := range calls {
		changes = append(changes, change{call.Begin, 1})
		if !call.End.IsZero() {
			changes = append(changes, change{call.End, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int {
		if order := a.at.Compare(b.at); order != 0 {
			return order
		}
		return a.delta - b.delta // An end first.
	})
	most, current := 0, 0
	for _, c := range changes {
		current += c.delta
		most = max(most, current)
	}
	return most
}
