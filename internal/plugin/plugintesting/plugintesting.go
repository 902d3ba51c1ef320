// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugintesting helps tests of the plugin host: it builds the plugins under
// test/, collects log lines and looks for processes that were left behind.
//
// It is NOT for tests of plugins; those use sdk/plugintest.
package plugintesting

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// Main is for TestMain: it builds the named plugins (folders of test/) into a
// temporary folder, calls run with it and returns run's result.
func Main(run func(dir string) int, plugins ...string) int {
	dir, err := os.MkdirTemp("", "grapnel-plugins")
	if err != nil {
		return fail("creating a folder", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	_, here, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(here), "..", "..", "..")
	for _, name := range plugins {
		cmd := exec.CommandContext(context.Background(), "go", "build", "-buildvcs=false", "-o", filepath.Join(dir, name), ".")
		cmd.Dir = filepath.Join(root, "test", name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fail("building "+name+": "+string(out), err)
		}
	}
	return run(dir)
}

func fail(what string, err error) int {
	fmt.Fprintln(os.Stderr, what+":", err)
	return 1
}

// Log collects log lines.
type Log struct {
	mu    sync.Mutex
	lines []string
	// closed makes a later line an error of the test.
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

// Close makes every further line an error of the test.
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

// Children returns the command lines of the processes of this program's children
// and of processes whose binary lies in dir, zombies included.
func Children(dir string) []string {
	var found []string
	entries, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range entries {
		data, err := os.ReadFile(path) //nolint:gosec // a name from /proc
		if err != nil {
			continue
		}
		// "pid (comm) state ppid ..."; comm may hold anything, also ")".
		text := string(data)
		rest := strings.Fields(text[strings.LastIndex(text, ")")+1:])
		cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		command := strings.ReplaceAll(string(cmdline), "\x00", " ")
		isOurs := len(rest) > 1 && rest[1] == fmt.Sprint(os.Getpid())
		if isOurs || (dir != "" && strings.HasPrefix(command, dir)) {
			found = append(found, strings.TrimSpace(text[:strings.LastIndex(text, ")")+1]+" "+rest[0]+" "+command))
		}
	}
	return found
}
