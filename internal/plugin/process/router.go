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

// maxStrays is how many runs with abandoned calls a router tells apart.
const maxStrays = 64

// router hands the log lines of one child to the calls they belong to: by the id
// of the call, else by its idempotency key, else to the run that all calls in progress
// belong to, else to the operator's log.
type router struct {
	operator logr.Logger

	mu    sync.Mutex
	sinks map[string]*sink
	// strays are the keys of calls that were abandoned and whose end nobody knows: their
	// lines may still come.
	strays map[string]bool
	tail   []string
}

func newRouter(operator logr.Logger) *router {
	return &router{operator: operator, sinks: map[string]*sink{}, strays: map[string]bool{}}
}

// sink is the way to the log of one call. An overdue call keeps its sink, without
// the log, until the child says that the call has ended.
type sink struct {
	key string
	// ended is closed when the child has written the last line of the call.
	ended chan struct{}

	// open may be read at any time and is changed with mu held.
	open   atomic.Bool
	mu     sync.Mutex
	log    logr.Logger
	runLog logr.Logger
	budget logline.Budget
}

// begin opens the log of a call.
func (r *router) begin(callID string, call Call) *sink {
	s := &sink{key: call.Key, ended: make(chan struct{}), log: call.Log, runLog: call.RunLog}
	if s.runLog.IsZero() {
		s.runLog = s.log
	}
	s.open.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sinks[callID] = s
	return s
}

// detach guarantees that nothing is written to the log of a call any more.
func (s *sink) detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open.Store(false)
}

// forget removes a call.
func (r *router) forget(callID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sinks, callID)
}

// stray removes a call that was abandoned and that the child will never end.
func (r *router) stray(callID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.sinks[callID]; ok && len(r.strays) <= maxStrays {
		r.strays[s.key] = true
	}
	delete(r.sinks, callID)
}

// handle takes one record.
func (r *router) handle(rec logline.Record) {
	if rec.End != "" {
		r.end(rec.End)
		return
	}
	target, certain := r.target(rec)
	if target == nil || !target.write(rec, certain) {
		rec.Write(r.operator)
	}
}

// end is called once per call at most: forgetting the call first makes a second
// marker harmless.
func (r *router) end(callID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.sinks[callID]; ok {
		delete(r.sinks, callID)
		close(s.ended)
	}
}

// target returns where a record goes, nil for the operator's log. It is certain if no
// other call can be meant, else one of the same run may be.
func (r *router) target(rec logline.Record) (found *sink, certain bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec.Message != "" {
		r.tail = append(r.tail, rec.Message)
	}
	if len(r.tail) > tailLines {
		r.tail = r.tail[1:]
	}
	if s, ok := r.sinks[rec.Call]; ok {
		return s, true
	}
	certain = true
	for _, s := range r.sinks {
		if rec.Key != "" && rec.Key != s.key || !s.open.Load() {
			continue
		}
		if found != nil && (found.key != s.key || s.key == "") {
			return nil, false
		}
		certain = found == nil
		found = s
	}
	if found == nil || rec.Key == "" && r.straysBesides(found.key) {
		return nil, false
	}
	return found, certain
}

// straysBesides reports whether calls of another run than that of key were abandoned.
func (r *router) straysBesides(key string) bool {
	return len(r.strays) > 1 || len(r.strays) == 1 && !r.strays[key]
}

// lastLines returns what the child logged last.
func (r *router) lastLines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.tail...)
}

// write returns false if the log of the call is closed. If it is not certain that the
// record is of this call, it goes to the log of the run.
func (s *sink) write(rec logline.Record, certain bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open.Load() {
		return false
	}
	log := s.runLog
	if certain {
		log = s.log
	}
	if s.budget.Spend(rec.Size, s.log) {
		rec.Write(log)
	}
	return true
}
