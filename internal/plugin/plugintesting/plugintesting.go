// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugintesting helps tests of the plugin host: it builds the plugins under test/,
// collects log lines and finds processes that were left behind.
//
// Tests of plugins use sdk/plugintest instead.
package plugintesting

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc"
)

// RunWithPlugins is for TestMain: it builds the named plugins (directories of test/) into a
// temporary directory, calls run with it and returns run's result.
func RunWithPlugins(ctx context.Context, run func(dir string) int, plugins ...string) int {
	dir, err := os.MkdirTemp("", "grapnel-plugins")
	if err != nil {
		return reportFailure("creating a directory", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	_, here, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(here), "..", "..", "..")
	for _, name := range plugins {
		cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", filepath.Join(dir, name), ".")
		cmd.Dir = filepath.Join(root, "test", name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return reportFailure("building "+name+": "+string(out), err)
		}
	}
	return run(dir)
}

func reportFailure(what string, err error) int {
	fmt.Fprintln(os.Stderr, what+":", err)
	return 1
}

// Log collects log lines.
type Log struct {
	mu    sync.Mutex
	lines []string
	// closed makes later lines fail the test.
	closed bool
	tb     testing.TB
}

// NewLog returns an empty Log.
func NewLog(tb testing.TB) *Log {
	tb.Helper()
	return &Log{tb: tb}
}

// Logger returns a logger that writes to the Log.
func (l *Log) Logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.closed {
			l.tb.Errorf("line after the end of the log: %s %s", prefix, args)
		}
		l.lines = append(l.lines, prefix+" "+args)
	}, funcr.Options{Verbosity: 9})
}

// Close makes every further line fail the test.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// Lines returns the lines so far.
func (l *Log) Lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

// Text returns the lines so far as one text.
func (l *Log) Text() string {
	return strings.Join(l.Lines(), "\n")
}

// Call is a call of a fake connection. It implements host.OpenCall.
type Call struct {
	// Connection and CallID are what Conn and ID return.
	Connection grpc.ClientConnInterface
	CallID     string
	// EndsWithContext makes a call that succeeded after ctx ended fail, too.
	EndsWithContext bool
}

// Conn returns Connection.
func (c Call) Conn() grpc.ClientConnInterface { return c.Connection }

// ID returns CallID.
func (c Call) ID() string { return c.CallID }

// End returns the error of ctx if the call failed after ctx ended, else err.
func (c Call) End(ctx context.Context, err error) error {
	if ctx.Err() != nil && (err != nil || c.EndsWithContext) {
		return ctx.Err()
	}
	return err
}

// procEntry is one entry of /proc.
type procEntry struct {
	parent  int
	command string
	text    string
}

// listProcesses returns all processes of the machine, zombies included.
func listProcesses() []procEntry {
	var found []procEntry
	entries, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range entries {
		data, err := os.ReadFile(path)
		if err != nil {
			// It ended in the meantime.
			continue
		}
		// "pid (comm) state ppid ..."; comm may contain anything, also ")".
		text := string(data)
		end := strings.LastIndex(text, ")") + 1
		rest := strings.Fields(text[end:])
		parent, _ := strconv.Atoi(rest[1])
		cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		command := strings.ReplaceAll(string(cmdline), "\x00", " ")
		found = append(found, procEntry{parent: parent, command: command, text: text[:end] + " " + rest[0] + " " + command})
	}
	return found
}

// ListChildren returns this program's child processes and all processes whose binary is in
// dir, zombies included.
func ListChildren(dir string) []string {
	var found []string
	for _, p := range listProcesses() {
		if p.parent == os.Getpid() || strings.HasPrefix(p.command, dir+"/") {
			found = append(found, p.text)
		}
	}
	return found
}

// FindProcesses returns the processes of the machine whose command line begins with
// command.
func FindProcesses(command string) []string {
	var found []string
	for _, p := range listProcesses() {
		if strings.HasPrefix(p.command, command) {
			found = append(found, p.text)
		}
	}
	return found
}

// WaitForFile waits until the file at path exists and is not empty.
func WaitForFile(tb testing.TB, path string) {
	tb.Helper()
	Eventually(tb, "the file "+filepath.Base(path)+" was written", func() bool {
		info, err := os.Stat(path)
		return err == nil && info.Size() > 0
	})
}

// Eventually waits until condition holds.
func Eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	timeout := time.NewTimer(waitTimeout)
	defer timeout.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-timeout.C:
			tb.Fatalf("not within %s: %s", waitTimeout, what)
		}
	}
}

// waitTimeout is reached only by failing tests.
const waitTimeout = 30 * time.Second
