// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/plugin/logline"
)

// tailLines is how many of the last lines are kept to explain an exit.
const tailLines = 3

// maxAbandonedKeys is how many runs with abandoned calls a router tells apart.
const maxAbandonedKeys = 64

// logRouter hands the log lines of one child to the calls they belong to: by the id
// of the call, else by its idempotency key, else to the run that all calls in progress
// belong to, else to the operator's log.
type logRouter struct {
	operatorLog logr.Logger

	mu       sync.Mutex
	callLogs map[string]*callLog
	// abandonedKeys are the keys of calls that were abandoned and whose end nobody knows: their
	// lines may still come.
	abandonedKeys map[string]bool
	tail          []string
}

func newLogRouter(operator logr.Logger) *logRouter {
	return &logRouter{operatorLog: operator, callLogs: map[string]*callLog{}, abandonedKeys: map[string]bool{}}
}

// callLog is the way to the log of one call. An overdue call keeps its sink, without
// the log, until the child says that the call has ended.
type callLog struct {
	key string
	// ended is closed when the child has written the last line of the call.
	ended chan struct{}

	// open may be read at any time and is changed with mu held.
	open   atomic.Bool
	mu     sync.Mutex
	log    logr.Logger
	runLog logr.Logger
	budget logline.CallBudget
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

// detachRunLog guarantees that nothing is written to the log of a call any more.
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

// removeAbandonedCall removes a call that was abandoned and that the child will never end.
func (r *logRouter) removeAbandonedCall(callID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.callLogs[callID]; ok && len(r.abandonedKeys) <= maxAbandonedKeys {
		r.abandonedKeys[s.key] = true
	}
	delete(r.callLogs, callID)
}

// routeLogRecord takes one record.
func (r *logRouter) routeLogRecord(rec logline.Record) {
	if rec.EndedCallID != "" {
		r.markCallEnded(rec.EndedCallID)
		return
	}
	target, certain := r.findCallLog(rec)
	if target == nil || !target.writeLogRecord(rec, certain) {
		rec.LogTo(r.operatorLog)
	}
}

// markCallEnded is called once per call at most: forgetting the call first makes a second
// marker harmless.
func (r *logRouter) markCallEnded(callID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.callLogs[callID]; ok {
		delete(r.callLogs, callID)
		close(s.ended)
	}
}

// findCallLog returns where a record goes, nil for the operator's log. It is certain if no
// other call can be meant, else one of the same run may be.
func (r *logRouter) findCallLog(rec logline.Record) (found *callLog, certain bool) {
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

// hasOtherAbandonedCalls reports whether calls of another run than that of key were abandoned.
func (r *logRouter) hasOtherAbandonedCalls(key string) bool {
	return len(r.abandonedKeys) > 1 || len(r.abandonedKeys) == 1 && !r.abandonedKeys[key]
}

// lastMessages returns what the child logged last.
func (r *logRouter) lastMessages() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.tail...)
}

// writeLogRecord returns false if the log of the call is closed. If it is not certain that the
// record is of this call, it goes to the log of the run.
func (s *callLog) writeLogRecord(rec logline.Record, certain bool) bool {
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
