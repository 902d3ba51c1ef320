// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"sync"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// MaxUnanswered is how many consecutive calls may end without an answer before an action is
// given up for the rest of a run: a hanging plugin must not cost a timeout for each of ten
// thousand objects.
const MaxUnanswered = 3

// CircuitBreaker counts the calls of one action in one run. It is safe for concurrent use,
// and the zero CircuitBreaker is ready to use.
type CircuitBreaker struct {
	mu         sync.Mutex
	unanswered int
	// connectionLosses counts how often the connection to the plugin was lost.
	connectionLosses int
	lastErr          error
}

// CallStart is the state at the start of a call, for Record.
type CallStart struct{ connectionLosses int }

// AllowCall returns an error if the action was given up and must not be called.
func (g *CircuitBreaker) AllowCall() (CallStart, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.unanswered < MaxUnanswered {
		return CallStart{g.connectionLosses}, nil
	}
	return CallStart{}, &CircuitOpenError{LastErr: g.lastErr}
}

// Record records the result of a call: its error, if any, and the kind of the error. An
// action that was given up stays so. A call that the run itself ended is ignored. Of the
// concurrent calls that were open when the plugin exited, only the first one counts: the
// plugin is restarted for the next call, regardless of their number.
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

// recordUnlessEnded records the result of a call, unless the run has ended: then the action did not
// get its full time.
func (g *CircuitBreaker) recordUnlessEnded(run context.Context, began CallStart, err error) {
	if run.Err() == nil {
		g.Record(began, executorErrorKind(err), err)
	}
}

// CircuitOpenError means that an action is no longer called in this run.
type CircuitOpenError struct {
	// LastErr is the error of the last call.
	LastErr error
}

// Error returns the reason and a hint.
func (e *CircuitOpenError) Error() string {
	return fmt.Sprintf("is no longer called in this run, because %d consecutive calls had no answer: "+
		"check the plugin and its log; the last of them %v", MaxUnanswered, e.LastErr)
}

// Unwrap returns the error of the last call.
func (e *CircuitOpenError) Unwrap() error { return e.LastErr }
