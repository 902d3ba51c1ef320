// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package runlog_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runlog"
)

func open(t *testing.T, dir string, redactor *redact.Redactor) *runlog.Store {
	t.Helper()
	book, err := runlog.New(dir, redactor, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// read returns the lines of a stream; nil if there is none.
func read(t *testing.T, book *runlog.Store, run string, stream runlog.Stream) []string {
	t.Helper()
	r, err := book.OpenReader(run, stream)
	if err != nil {
		t.Fatal(err)
	}
	if r == nil {
		return nil
	}
	defer func() { _ = r.Close() }()
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return strings.SplitAfter(strings.TrimSuffix(string(content), "\n"), "\n")
}

// want checks that there is one line for each part, in this order.
func want(t *testing.T, lines []string, parts ...string) {
	t.Helper()
	if len(lines) != len(parts) {
		t.Fatalf("there are %d lines, want %d:\n%s", len(lines), len(parts), strings.Join(lines, ""))
	}
	for i, part := range parts {
		if !strings.Contains(lines[i], part) {
			t.Errorf("line %d is %q, want %q in it", i, lines[i], part)
		}
	}
}

func TestStore_SeparateStreams(t *testing.T) {
	t.Parallel()
	book := open(t, filepath.Join(t.TempDir(), "a", "b"), redact.New())
	if lines := read(t, book, "u-1", runlog.Main); lines != nil {
		t.Errorf("before anything was logged there is %q", lines)
	}
	book.Logger(runlog.Run{UID: "u-1"}, runlog.Main).Info("first", "item", "configmaps/a")
	book.Logger(runlog.Run{UID: "u-1"}, runlog.PostActions).Info("after the outcome")
	book.Logger(runlog.Run{UID: "u-2"}, runlog.Main).Info("another run")
	log := book.Logger(runlog.Run{UID: "u-1"}, runlog.Main)
	log.Error(errors.New("it broke"), "second")
	log.V(1).Info("for developers only")
	log.Info("third\nlevel=ERROR msg=forged")

	want(t, read(t, book, "u-1", runlog.Main), `level=INFO msg=first item=configmaps/a`, `level=ERROR msg=second err="it broke"`, `msg="third\nlevel=ERROR msg=forged"`)
	want(t, read(t, book, "u-1", runlog.PostActions), "after the outcome")
	want(t, read(t, book, "u-2", runlog.Main), "another run")
}

func TestStore_Redaction(t *testing.T) {
	t.Parallel()
	redactor := redact.New("hunter2-secret")
	book := open(t, t.TempDir(), redactor)
	log := book.Logger(runlog.Run{UID: "u"}, runlog.Main).WithValues("password", "not-known-before")
	log.Info("logging in with hunter2-secret", "line", "token hunter2-secret")
	redactor.AddValues("learned-later")
	log.Error(errors.New("denied: learned-later"), "failed")
	lines := read(t, book, "u", runlog.Main)
	want(t, lines, "logging in with", "failed")
	for _, secret := range []string{"hunter2-secret", "not-known-before", "learned-later"} {
		if text := strings.Join(lines, ""); strings.Contains(text, secret) {
			t.Errorf("the log contains %q:\n%s", secret, text)
		}
	}
}

// TestStore_Restart continues in the file of an operator that was killed.
func TestStore_Restart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir, redact.New()).Logger(runlog.Run{UID: "u"}, runlog.Main).Info("before")
	second := open(t, dir, redact.New())
	want(t, read(t, second, "u", runlog.Main), "before")
	second.Logger(runlog.Run{UID: "u"}, runlog.Main).Info("after")
	want(t, read(t, second, "u", runlog.Main), "before", "after")
}

func TestRemove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := open(t, dir, redact.New())
	log, other := book.Logger(runlog.Run{UID: "u"}, runlog.Main), book.Logger(runlog.Run{UID: "other"}, runlog.Main)
	log.Info("one")
	book.Logger(runlog.Run{UID: "u"}, runlog.PostActions).Info("two")
	book.Remove("u")
	log.Info("logged after the removal")
	other.Info("stays")
	if read(t, book, "u", runlog.Main) != nil || read(t, book, "u", runlog.PostActions) != nil {
		t.Error("there are logs of a run that was removed")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v (%v), want one file", entries, err)
	}
	want(t, read(t, book, "other", runlog.Main), "stays")
	book.Logger(runlog.Run{UID: "u"}, runlog.Main).Info("it runs again")
	want(t, read(t, book, "u", runlog.Main), "it runs again")

	// Files of an operator that was killed are removed as well.
	second := open(t, dir, redact.New())
	second.Remove("other")
	second.Remove("never-heard-of")
	if read(t, second, "other", runlog.Main) != nil {
		t.Error("the log of an earlier operator was not removed")
	}
}

// TestStore_FullFile fills a file up to its limit, which also applies after a restart.
func TestStore_FullFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir, redact.New()).Logger(runlog.Run{UID: "u"}, runlog.Main).Info("first")
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	if err := os.Truncate(files[0], runlog.MaxFileBytes-200); err != nil {
		t.Fatal(err)
	}
	book := open(t, dir, redact.New())
	log := book.Logger(runlog.Run{UID: "u"}, runlog.Main)
	for i := range 100 {
		log.Info(fmt.Sprintf("line %d %s", i, strings.Repeat("x", 50)))
	}
	book.Logger(runlog.Run{UID: "u"}, runlog.PostActions).Info("the other stream has room")
	info, err := os.Stat(files[0])
	if err != nil || info.Size() > runlog.MaxFileBytes+200 {
		t.Errorf("the file has %d bytes (%v), want at most the limit and one line", info.Size(), err)
	}
	end := make([]byte, info.Size()-(runlog.MaxFileBytes-200))
	f, err := os.Open(files[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.ReadAt(end, runlog.MaxFileBytes-200); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(end), "\n"), "\n")
	want(t, lines, "line 0", "This log is full")
	want(t, read(t, book, "u", runlog.PostActions), "the other stream has room")
}

// TestStore_OpenLogger: polls of operations add to the log of a run in progress, but cannot fill it.
func TestStore_OpenLogger(t *testing.T) {
	t.Parallel()
	book := open(t, t.TempDir(), redact.New("hunter22"))
	run, budget := runlog.Run{UID: "u"}, new(runlog.Budget)
	if _, isOpen := book.OpenLogger(run, runlog.Main, budget); isOpen || read(t, book, "u", runlog.Main) != nil {
		t.Error("there is a log of a run that has not begun")
	}
	book.Open("u", runlog.Main)
	first, isOpen := book.OpenLogger(run, runlog.Main, budget)
	second, _ := book.OpenLogger(run, runlog.Main, budget)
	if !isOpen {
		t.Fatal("the log is not open")
	}
	first.Info("polled with hunter22")
	second.Info("polled", "line", strings.Repeat("x", runlog.MaxBudgetBytes))
	first.Info("polled again")
	book.Logger(run, runlog.Main).Info("the run ends")
	want(t, read(t, book, "u", runlog.Main), `msg="polled with `+redact.Placeholder, "further lines of Progress and Cancel are dropped", "the run ends")

	book.Remove("u")
	first.Info("polled late")
	if _, isOpen := book.OpenLogger(run, runlog.Main, budget); isOpen || read(t, book, "u", runlog.Main) != nil {
		t.Error("there is a log of a run that is over")
	}
}

// TestStore_ConcurrentWriters lets many actions log to one run at once: every line is complete, and the
// lines of one writer are in order.
func TestStore_ConcurrentWriters(t *testing.T) {
	t.Parallel()
	book := open(t, t.TempDir(), redact.New())
	const writers, each = 8, 200
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				book.Logger(runlog.Run{UID: "u"}, runlog.Main).Info("line", "writer", w, "n", i)
				if i == each/2 {
					book.Remove("another")
				}
			}
		})
	}
	group.Go(func() {
		for range 50 {
			if r, err := book.OpenReader("u", runlog.Main); err != nil {
				t.Error(err)
			} else if r != nil {
				_ = r.Close()
			}
		}
	})
	group.Wait()
	next := map[int]int{}
	lines := read(t, book, "u", runlog.Main)
	for _, line := range lines {
		var w, n int
		if _, err := fmt.Sscanf(line[strings.Index(line, "msg="):], "msg=line writer=%d n=%d", &w, &n); err != nil || n != next[w] {
			t.Fatalf("line %q: %v, want n=%d", line, err, next[w])
		}
		next[w]++
	}
	if len(lines) != writers*each {
		t.Errorf("there are %d lines, want %d", len(lines), writers*each)
	}
}

func TestStore_UnwritableDirectory(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	blocked := filepath.Join(parent, "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := runlog.New(filepath.Join(blocked, "logs"), redact.New(), logr.Discard()); err == nil {
		t.Error("a directory below a file was accepted")
	}
	dir := filepath.Join(parent, "logs")
	book := open(t, dir, redact.New())
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	book.Logger(runlog.Run{UID: "u"}, runlog.Main).Info("dropped")
	if lines := read(t, book, "u", runlog.Main); lines != nil {
		t.Errorf("the directory was removed and there is %q", lines)
	}
	book.Remove("u")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	book.Logger(runlog.Run{UID: "u"}, runlog.Main).Info("the directory is back")
	want(t, read(t, book, "u", runlog.Main), "the directory is back")
}

// TestStore_InvalidUIDs keeps files for invalid UIDs inside the directory.
func TestStore_InvalidUIDs(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "logs")
	book := open(t, dir, redact.New())
	for _, run := range []string{"../../escape", "/etc/passwd", "a\x00b", "", "..", "line\nbreak", strings.Repeat("long", 100)} {
		book.Logger(runlog.Run{UID: run}, runlog.Main).Info("hello")
		book.Remove(run + "/../u")
	}
	outside, err := os.ReadDir(parent)
	if err != nil || len(outside) != 1 {
		t.Errorf("beside the directory there is %v (%v)", outside, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 6 {
		t.Errorf("the directory has %v (%v), want a file for each name that is not too long", entries, err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %v (%v), want a file that only the operator reads", entry.Name(), info.Mode(), err)
		}
	}
}

// TestStore_Output gets each line with the name of the run, without secrets.
func TestStore_Output(t *testing.T) {
	t.Parallel()
	redactor := redact.New()
	redactor.AddValues("hunter2hunter2")
	var lines []string
	output := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	book, err := runlog.New(t.TempDir(), redactor, redactor.Logger(output))
	if err != nil {
		t.Fatal(err)
	}
	run := runlog.Run{UID: "u-1", Kind: "Restore", Namespace: "grapnel-system", Name: "back"}
	log := book.Logger(run, runlog.Main).WithValues("item", "configmaps/a")
	log.Info("The password is hunter2hunter2")
	log.V(1).Info("a detail")
	log.Error(errors.New("hunter2hunter2 was refused"), "Failed")
	want(t, lines, `"msg"="The password is `, `"msg"="Failed"`)
	for _, line := range lines {
		if !strings.Contains(line, `"restore"="grapnel-system/back"`) || !strings.Contains(line, `"item"="configmaps/a"`) || strings.Contains(line, "hunter2") {
			t.Errorf("the line is %s", line)
		}
	}
	want(t, read(t, book, "u-1", runlog.Main), "The password is", "Failed")
}

// TestFollow reads a log while it is written, until it is removed or the reader gives up.
func TestFollow(t *testing.T) {
	t.Parallel()
	book := open(t, t.TempDir(), redact.New())
	if r, err := book.Follow(t.Context(), "u", runlog.Main); r != nil || err != nil {
		t.Fatalf("before anything was logged: %v, %v", r, err)
	}
	log := book.Logger(runlog.Run{UID: "u"}, runlog.Main)
	log.Info("line 0")
	const lines = 1000
	var readers sync.WaitGroup
	for range 3 {
		r, err := book.Follow(t.Context(), "u", runlog.Main)
		if err != nil {
			t.Fatal(err)
		}
		readers.Go(func() {
			content, err := io.ReadAll(r)
			if n := strings.Count(string(content), "\n"); n != lines || err != nil || r.Close() != nil {
				t.Errorf("%d lines, %v; want %d", n, err, lines)
			}
		})
	}
	for i := 1; i < lines; i++ {
		log.Info(fmt.Sprintf("line %d", i))
	}
	book.Remove("u")
	readers.Wait()
}

// TestFollow_CanceledReader: a reader that leaves does not wait for the end of the run.
func TestFollow_CanceledReader(t *testing.T) {
	t.Parallel()
	book := open(t, t.TempDir(), redact.New())
	book.Logger(runlog.Run{UID: "u"}, runlog.Main).Info("one")
	ctx, cancel := context.WithCancel(t.Context())
	r, err := book.Follow(ctx, "u", runlog.Main)
	if err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(ctx, func() { _ = r.Close() })
	lines := bufio.NewScanner(r)
	if !lines.Scan() {
		t.Fatal(lines.Err())
	}
	cancel()
	if lines.Scan() || lines.Err() == nil {
		t.Errorf("after the cancellation: %q, %v", lines.Text(), lines.Err())
	}
}

// TestFollow_Restart: a run that continues after a restart is followed, although this process has not logged yet.
func TestFollow_Restart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir, redact.New()).Logger(runlog.Run{UID: "u"}, runlog.Main).Info("before")
	book := open(t, dir, redact.New())
	r, err := book.Follow(t.Context(), "u", runlog.Main)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(r)
	for _, text := range []string{"before", "after"} {
		if !lines.Scan() || !strings.Contains(lines.Text(), text) {
			t.Fatalf("%q, %v; want %q", lines.Text(), lines.Err(), text)
		}
		if text == "before" {
			book.Logger(runlog.Run{UID: "u"}, runlog.Main).Info("after")
		}
	}
	book.Remove("u")
	if lines.Scan() || lines.Err() != nil || r.Close() != nil {
		t.Errorf("after the end: %q, %v", lines.Text(), lines.Err())
	}
}
