// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// annotationOperation configures the operation that is started on a ConfigMap; a ConfigMap
// without it gets none. Its value is one of the following, or several separated by
// semicolons:
//
//	steps:5            n of 5 are done in the n-th Progress, the last one completes
//	until:file         runs until there is a file, 1 of 2
//	captured:file      has captured its data when there is a file
//	never              stays at 1 of 10
//	back               goes from 5 back to 3, and completes
//	over               goes beyond its total, and completes
//	twice              completes, continues, completes
//	error:text         fails where it would complete
//	unknown            Progress returns that there is no such operation
//	forget             the process keeps it only in memory
//	hang:file          Progress hangs until there is a file
//	flaky:3            every third Progress fails
//	kill:2             the process kills itself in the second Progress
//	id:2000            an ID of this many bytes
//	sameid             the same ID as all others with sameid
//	cancelfails        Cancel fails
//	cancelhangs        Cancel hangs until its ctx ends
//	cancelignored      Cancel does nothing
//	post:name          archive a ConfigMap of the namespace when it has ended
//	additional:name    add a Secret of the namespace
//	interval:200ms     the polling interval
//	refuse:text        Start fails
const annotationOperation = "fault.example.io/operation"

// operationProgram is a parsed annotation.
type operationProgram map[string]string

func parseOperationProgram(text string) operationProgram {
	p := operationProgram{}
	for _, part := range strings.Split(text, ";") {
		if name, argument, _ := strings.Cut(part, ":"); name != "" {
			p[name] = argument
		}
	}
	return p
}

func (p operationProgram) hasInstruction(name string) bool {
	_, ok := p[name]
	return ok
}

// intArgumentOf returns the argument of a part, 0 if there is none.
func (p operationProgram) intArgumentOf(name string) int {
	n, _ := strconv.Atoi(p[name])
	return n
}

// operationState is the state of one operation.
type operationState struct {
	Program   operationProgram
	Polls     int
	Cancelled bool
}

// operations stores the started operations, in the directory FAULT_OPERATIONS if it is set,
// and writes a line for each Start and Cancel to FAULT_CALL_LOG.
type operations struct {
	dir, log string

	mu     sync.Mutex
	memory map[string]*operationState
}

func newOperations(getenv func(string) string) *operations {
	return &operations{dir: getenv("FAULT_OPERATIONS"), log: getenv("FAULT_CALL_LOG"), memory: map[string]*operationState{}}
}

// recordOperationCall adds a call to the log, with the beginning of an ID as its key.
func (o *operations) recordOperationCall(ctx context.Context, point, id string) {
	if o.log == "" {
		return
	}
	line, err := json.Marshal(callLogEntry{Point: point, Key: id[:min(len(id), 200)], Traceparent: traceparent(ctx)})
	if err == nil {
		err = appendLineToFile(o.log, line)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "[ERROR] writing the call log:", err)
	}
}

// startOperation starts the operation of a program on an object of a run, and returns the
// ID.
func (o *operations) startOperation(ctx context.Context, run, namespace, name string, p operationProgram) (string, error) {
	id := strings.Join([]string{run, namespace, name, rand.Text()}, "/")
	switch {
	case p.hasInstruction("sameid"):
		id = "the-same"
	case p.hasInstruction("id"):
		id = strings.Repeat("i", p.intArgumentOf("id"))
	}
	o.recordOperationCall(ctx, "Start", id)
	o.mu.Lock()
	defer o.mu.Unlock()
	return id, o.writeOperation(id, &operationState{Program: p})
}

// operationPath returns the file of an operation; IDs may be long.
func (o *operations) operationPath(id string) string {
	return filepath.Join(o.dir, fmt.Sprintf("%x.json", sha256.Sum256([]byte(id))))
}

func (o *operations) writeOperation(id string, s *operationState) error {
	if o.dir == "" || s.Program.hasInstruction("forget") {
		o.memory[id] = s
		return nil
	}
	content, err := json.Marshal(s)
	if err != nil {
		return err
	}
	next := o.operationPath(id) + ".next"
	if err := errors.Join(os.MkdirAll(o.dir, 0o700), os.WriteFile(next, content, 0o600)); err != nil {
		return err
	}
	return os.Rename(next, o.operationPath(id))
}

func (o *operations) readOperation(id string) (*operationState, error) {
	if s := o.memory[id]; s != nil {
		return s, nil
	}
	content, err := os.ReadFile(o.operationPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, item.ErrUnknownOperation
	}
	if err != nil {
		return nil, err
	}
	s := &operationState{}
	return s, json.Unmarshal(content, s)
}

// updateOperation reads, changes and stores an operation.
func (o *operations) updateOperation(id string, change func(*operationState)) (*operationState, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, err := o.readOperation(id)
	if err != nil {
		return nil, err
	}
	change(s)
	return s, o.writeOperation(id, s)
}

// pollOperation returns the progress according to the program.
func (o *operations) pollOperation(ctx context.Context, id string) (*item.Progress, error) {
	s, err := o.updateOperation(id, func(s *operationState) { s.Polls++ })
	if err != nil {
		return nil, err
	}
	p := s.Program
	if p.hasInstruction("hang") {
		if err := waitForFile(ctx, p["hang"]); err != nil {
			return nil, err
		}
	}
	switch {
	case p.hasInstruction("unknown"):
		return nil, item.ErrUnknownOperation
	case p.hasInstruction("flaky") && s.Polls%max(1, p.intArgumentOf("flaky")) == 0:
		return nil, errors.New("the storage is busy, password=hunter2")
	case p.hasInstruction("kill") && s.Polls == p.intArgumentOf("kill"):
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		blockForever()
	case s.Cancelled:
		return &item.Progress{Completed: true, Cancelled: true, OperationUnits: "steps"}, nil
	}
	progress := s.currentProgress()
	progress.OperationUnits, progress.Description = "steps", fmt.Sprintf("in step %d", s.Polls)
	if progress.Completed {
		progress.Err = p["error"]
	}
	if p.hasInstruction("captured") {
		_, err := os.Stat(p["captured"])
		progress.DataCaptured = err == nil
	}
	return progress, nil
}

// currentProgress returns the progress of the operation after the given number of polls.
func (s *operationState) currentProgress() *item.Progress {
	p, n := s.Program, int64(s.Polls)
	switch {
	case p.hasInstruction("never"):
		return &item.Progress{NCompleted: 1, NTotal: 10}
	case p.hasInstruction("until"):
		if _, err := os.Stat(p["until"]); err == nil {
			return &item.Progress{NCompleted: 2, NTotal: 2, Completed: true}
		}
		return &item.Progress{NCompleted: 1, NTotal: 2}
	case p.hasInstruction("back"):
		return &item.Progress{NCompleted: max(3, 6-n), NTotal: 10, Completed: n > 3}
	case p.hasInstruction("over"):
		return &item.Progress{NCompleted: 4 * n, NTotal: 5, Completed: n > 3}
	case p.hasInstruction("twice"):
		return &item.Progress{NCompleted: n, NTotal: 3, Completed: n%2 == 1}
	}
	steps := int64(max(1, p.intArgumentOf("steps")))
	return &item.Progress{NCompleted: min(n, steps), NTotal: steps, Completed: n >= steps}
}

// cancelOperation cancels the operation according to the program.
func (o *operations) cancelOperation(ctx context.Context, id string) error {
	o.recordOperationCall(ctx, "Cancel", id)
	s, err := o.updateOperation(id, func(s *operationState) {
		s.Cancelled = s.Cancelled || !s.Program.hasInstruction("cancelfails") && !s.Program.hasInstruction("cancelhangs") && !s.Program.hasInstruction("cancelignored")
	})
	switch {
	case err != nil:
		return err
	case s.Program.hasInstruction("cancelfails"):
		return errors.New("the storage does not let go, password=hunter2")
	case s.Program.hasInstruction("cancelhangs"):
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// pollInterval returns the polling interval of the operation.
func (p operationProgram) pollInterval() time.Duration {
	d, _ := time.ParseDuration(p["interval"])
	return d
}
