// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package external

import (
	"fmt"
	"sync"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// MaxUnanswered is how many calls in a row may end without an answer before an action
// is given up for the rest of a run: a plugin that hangs must not cost a timeout for
// each of ten thousand objects.
const MaxUnanswered = 3

// CircuitBreaker counts the calls of one action in one run. It is safe for concurrent use, and
// the zero Guard is ready.
type CircuitBreaker struct {
	mu         sync.Mutex
	unanswered int
	// connectionLosses counts the times that the plugin went away.
	connectionLosses int
	lastErr          error
}

// CallStart is when a call began, for Note.
type CallStart struct{ connectionLosses int }

// AllowCall returns an error if the action was given up: it is not called then.
func (g *CircuitBreaker) AllowCall() (CallStart, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.unanswered < MaxUnanswered {
		return CallStart{g.connectionLosses}, nil
	}
	return CallStart{}, &CircuitOpenError{LastErr: g.lastErr}
}

// Record takes what became of a call: its error, if it had one, and the kind of that. An
// action that was given up stays so. A call that the run itself ended says nothing, and
// of those that were open when the plugin went away only the first one counts: the
// plugin is started again for the next call, however many were open.
func (g *CircuitBreaker) Record(began CallStart, kind executor.ErrorKind, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.unanswered >= MaxUnanswered:
	case kind == executor.Interrupted:
	case kind == executor.Unreachable && began.connectionLosses < g.connectionLosses:
	case kind == executor.Timeout, kind == executor.Unreachable:
		g.unanswered++
		g.lastErr = err
		if kind == executor.Unreachable {
			g.connectionLosses++
		}
	default:
		g.unanswered = 0
	}
}

// CircuitOpenError says that an action is not called any more in this run.
type CircuitOpenError struct {
	// LastErr is the error of the last call.
	LastErr error
}

// Error says why, and what to do.
func (e *CircuitOpenError) Error() string {
	return fmt.Sprintf("is not called any more in this run, because %d calls in a row had no answer: "+
		"check the plugin and its log; the last of them %v", MaxUnanswered, e.LastErr)
}

// Unwrap returns the error of the last call.
func (e *CircuitOpenError) Unwrap() error { return e.LastErr }
