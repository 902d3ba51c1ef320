// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
)

// tailLines is how many of the last lines are kept to explain an exit.
const tailLines = 3

// maxAbandonedKeys is how many runs with abandoned calls a router distinguishes.
const maxAbandonedKeys = 64

// logRouter routes the log lines of one child to the calls they belong to: by the ID of the
// call, else by its idempotency key, else to the run that all calls in progress belong to,
// else to the operator's log.
type logRouter struct {
	operatorLog logr.Logger

	mu       sync.Mutex
	callLogs map[string]*callLog
	// abandonedKeys are the keys of abandoned calls whose end is unknown: their lines may still
	// arrive.
	abandonedKeys map[string]bool
	tail          []string
}

func newLogRouter(operator logr.Logger) *logRouter {
	return &logRouter{operatorLog: operator, callLogs: map[string]*callLog{}, abandonedKeys: map[string]bool{}}
}

// callLog routes lines to the log of one call. An overdue call keeps its callLog, without
// the log, until the child reports the end of the call.
type callLog struct {
	key string
	// ended is closed when the child has written the last line of the call.
	ended chan struct{}

	// open may be read at any time and is changed with mu held.
	open   atomic.Bool
	mu     sync.Mutex
	log    logr.Logger
	runLog logr.Logger
	budget CallBudget
}

// beginCallLog opens the log of a call.
func (r *logRouter) beginCallLog(callID string, call Call) *callLog {
	s := &callLog{key: call.Key, ended: make(chan struct{}), log: call.Log, runLog: call.RunLog}
	if s.runLog.IsZero() {
		s.runLog = s.log
	}
	s.open.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.callLogs[callID] = s
	return s
}

// detachRunLog guarantees that nothing more is written to the log of a call.
func (s *callLog) detachRunLog() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open.Store(false)
}

// removeCallLog removes a call.
func (r *logRouter) removeCallLog(callID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.callLogs, callID)
}

// removeAbandonedCall removes an abandoned call whose end the child will never report.
func (r *logRouter) removeAbandonedCall(callID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.callLogs[callID]; ok && len(r.abandonedKeys) <= maxAbandonedKeys {
		r.abandonedKeys[s.key] = true
	}
	delete(r.callLogs, callID)
}

// routeLogRecord routes one record.
func (r *logRouter) routeLogRecord(rec Record) {
	if rec.EndedCallID != "" {
		r.markCallEnded(rec.EndedCallID)
		return
	}
	target, certain := r.findCallLog(rec)
	if target == nil || !target.writeLogRecord(rec, certain) {
		rec.LogTo(r.operatorLog)
	}
}

// markCallEnded is called at most once per call: removing the call first makes a second
// marker harmless.
func (r *logRouter) markCallEnded(callID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.callLogs[callID]; ok {
		delete(r.callLogs, callID)
		close(s.ended)
	}
}

// findCallLog returns the destination of a record, nil for the operator's log. The result
// is certain if the record can belong to no other call; otherwise it may belong to another
// call of the same run.
func (r *logRouter) findCallLog(rec Record) (found *callLog, certain bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec.Message != "" {
		r.tail = append(r.tail, rec.Message)
	}
	if len(r.tail) > tailLines {
		r.tail = r.tail[1:]
	}
	if s, ok := r.callLogs[rec.CallID]; ok {
		return s, true
	}
	certain = true
	for _, s := range r.callLogs {
		if rec.Key != "" && rec.Key != s.key || !s.open.Load() {
			continue
		}
		if found != nil && (found.key != s.key || s.key == "") {
			return nil, false
		}
		certain = found == nil
		found = s
	}
	if found == nil || rec.Key == "" && r.hasOtherAbandonedCalls(found.key) {
		return nil, false
	}
	return found, certain
}

// hasOtherAbandonedCalls reports whether calls of a run other than key were abandoned.
func (r *logRouter) hasOtherAbandonedCalls(key string) bool {
	return len(r.abandonedKeys) > 1 || len(r.abandonedKeys) == 1 && !r.abandonedKeys[key]
}

// lastMessages returns the last messages of the child.
func (r *logRouter) lastMessages() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.tail...)
}

// writeLogRecord returns false if the log of the call is closed. If the record does not
// certainly belong to this call, it goes to the log of the run.
func (s *callLog) writeLogRecord(rec Record, certain bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open.Load() {
		return false
	}
	log := s.runLog
	if certain {
		log = s.log
	}
	if s.budget.SpendBytes(rec.Size, s.log) {
		rec.LogTo(log)
	}
	return true
}
