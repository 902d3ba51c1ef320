// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"google.golang.org/grpc/metadata"
)

// executeRequest is a call of Execute of a hook or of a DeleteAction.
type executeRequest interface {
	GetPlugin() string
	GetIdempotencyKey() string
	GetAttempt() int32
	GetParameters() map[string]string
	GetCallId() string
}

// recorder records calls and decides which fault each one gets.
type recorder struct {
	logPath     string
	faults      map[string]string
	killPoint   string
	killCount   int
	killBefore  bool
	stderr      io.Writer
	mu          sync.Mutex
	countByName map[string]int
}

func newRecorder(getenv func(string) string) *recorder {
	r := &recorder{
		stderr: os.Stderr, logPath: getenv("FAULT_CALL_LOG"), faults: map[string]string{}, countByName: map[string]int{},
		killBefore: getenv("FAULT_KILL_PARENT_WHEN") == "before",
	}
	for _, entry := range strings.Split(getenv("FAULT_CALL"), ",") {
		point, fault, ok := strings.Cut(entry, "=")
		if !ok {
			point, fault = "", entry
		}
		r.faults[point] = fault
	}
	point, count, _ := strings.Cut(getenv("FAULT_KILL_PARENT_AT"), ":")
	r.killPoint = point
	r.killCount, _ = strconv.Atoi(count)
	return r
}

// faultForCall returns the fault of a call: its parameter, else the fault of its point,
// else that of all calls.
func (r *recorder) faultForCall(point string, in executeRequest) string {
	if fault, ok := in.GetParameters()["fault"]; ok {
		return fault
	}
	if fault, ok := r.faults[point]; ok {
		return fault
	}
	return r.faults[""]
}

// callLogEntry is one line of the call log.
type callLogEntry struct {
	Point   string `json:"point"`
	Action  string `json:"action"`
	Key     string `json:"key"`
	Attempt int32  `json:"attempt"`
	// Traceparent is that of the call.
	Traceparent string `json:"traceparent,omitempty"`
}

// traceparent returns the traceparent of a call; empty if the operator has no traces.
func traceparent(ctx context.Context) string {
	return strings.Join(metadata.ValueFromIncomingContext(ctx, "traceparent"), ",")
}

// recordExecuteCall adds the call to the log and returns the number of calls for its point
// so far.
func (r *recorder) recordExecuteCall(ctx context.Context, point string, in executeRequest) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.logPath == "" {
		r.countByName[point]++
		return r.countByName[point]
	}
	line, err := json.Marshal(callLogEntry{
		Point: point, Action: in.GetPlugin(), Key: in.GetIdempotencyKey(), Attempt: in.GetAttempt(), Traceparent: traceparent(ctx),
	})
	if err == nil {
		err = appendLineToFile(r.logPath, line)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "[ERROR] writing the call log:", err)
	}
	return countLoggedCalls(r.logPath, point)
}

func appendLineToFile(path string, line []byte) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // named by the test
	if err != nil {
		return err
	}
	if _, err := file.Write(append(line, '\n')); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

func countLoggedCalls(path, point string) int {
	data, err := os.ReadFile(path) //nolint:gosec // named by the test
	if err != nil {
		return 0
	}
	count := 0
	scanner := bufio.NewScanner(bytes.NewReader(data))
	for scanner.Scan() {
		var e callLogEntry
		if json.Unmarshal(scanner.Bytes(), &e) == nil && e.Point == point {
			count++
		}
	}
	return count
}

func (r *recorder) shouldKillAt(point string, count int) bool {
	return r.killPoint == point && r.killCount == count
}

// killParentProcess kills the operator, and this process with it.
func killParentProcess() {
	_ = syscall.Kill(os.Getppid(), syscall.SIGKILL)
	blockForever()
}
