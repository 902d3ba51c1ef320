// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package runlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/klauspost/compress/gzip"

	"github.com/grapnel-dev/grapnel/internal/panics"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// Stream is one of the logs of a run.
type Stream string

// The streams of a run.
const (
	// Main is the log up to the outcome.
	Main Stream = "main"
	// PostActions is the log of the actions after it.
	PostActions Stream = "post"
)

// Run identifies a run with logs.
type Run struct {
	// UID names its files.
	UID string
	// Kind, Namespace and Name are those of its object. Only the operator's output has them.
	Kind, Namespace, Name string
}

// MaxFileBytes is the maximum size of one file.
const MaxFileBytes = 64 << 20

// Store manages the open logs. It is safe for concurrent use.
type Store struct {
	dir      string
	redactor *redact.Redactor
	output   logr.Logger

	mu        sync.Mutex
	openFiles map[string]*limitedFile
}

// New returns a Store with its files in dir, which it creates. Every line also goes to output, with the
// name of the run; logr.Discard() drops it.
func New(dir string, redactor *redact.Redactor, output logr.Logger) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory for run logs: %w", err)
	}
	return &Store{dir: dir, redactor: redactor, output: output, openFiles: map[string]*limitedFile{}}, nil
}

// Redactor returns the Redactor of the logs.
func (b *Store) Redactor() *redact.Redactor { return b.redactor }

// Logger returns a logger that writes to a stream of the run, and to the operator's output. If the
// file cannot be written, only the output has the lines: a full disk must not fail a backup.
func (b *Store) Logger(run Run, stream Stream) logr.Logger {
	f, err := b.openFile(run.UID, stream)
	if err != nil {
		return b.outputFor(run)
	}
	return b.newLogger(run, f)
}

// Open opens a stream of the run for OpenLogger, unless the file cannot be written.
func (b *Store) Open(run string, stream Stream) {
	_, _ = b.openFile(run, stream) // as for Logger
}

// OpenLogger is Logger for what happens beside the steps of a run, such as calls for its operations.
// It returns false if the stream is not open: the run has not begun here, or its log is removed. All
// writers with the same budget share it.
func (b *Store) OpenLogger(run Run, stream Stream, budget *Budget) (logr.Logger, bool) {
	b.mu.Lock()
	f, open := b.openFiles[b.filePath(run.UID, stream)]
	b.mu.Unlock()
	if !open {
		return logr.Logger{}, false
	}
	return b.newLogger(run, &budgetWriter{file: f, budget: budget}), true
}

// newLogger returns a logger that writes to a file of the run, and to the operator's output.
func (b *Store) newLogger(run Run, to io.Writer) logr.Logger {
	file := slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: b.redactor.ReplaceAttr})
	return logr.FromSlogHandler(slog.NewMultiHandler(file, logr.ToSlogHandler(b.outputFor(run))))
}

// outputFor returns the operator's output, with the name of a run.
func (b *Store) outputFor(run Run) logr.Logger {
	return b.output.WithValues(strings.ToLower(run.Kind), run.Namespace+"/"+run.Name)
}

// OpenReader returns the current content of a stream of the run; nil if nothing was logged
// there.
func (b *Store) OpenReader(run string, stream Stream) (io.ReadCloser, error) {
	f, err := os.Open(b.filePath(run, stream))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening a run's log: %w", err)
	}
	return f, nil
}

// Follow is OpenReader for the log of a run that may still log: at its end, a Read waits for more until
// the log is removed or ctx ends.
func (b *Store) Follow(ctx context.Context, run string, stream Stream) (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	log, err := b.OpenReader(run, stream)
	if err != nil || log == nil {
		return nil, err
	}
	f, err := b.openLockedFile(run, stream)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return &follower{ReadCloser: log, ctx: ctx, file: f}, nil
}

// OpenCompressed is OpenReader with gzip compression. If a log cannot be read, the reader
// ends with the error.
func (b *Store) OpenCompressed(run string, stream Stream) (io.ReadCloser, error) {
	log, err := b.OpenReader(run, stream)
	if err != nil || log == nil {
		return nil, err
	}
	reader, writer := io.Pipe()
	go func() {
		_ = writer.CloseWithError(writeCompressed(writer, log)) // always nil
	}()
	return reader, nil
}

// writeCompressed compresses from with gzip, and closes from. It converts a panic to an
// error, because no other code would recover it.
func writeCompressed(to io.Writer, from io.ReadCloser) (err error) {
	defer func() { err = errors.Join(err, from.Close()) }()
	defer panics.Recover(&err)
	compressed := gzip.NewWriter(to)
	_, err = io.Copy(compressed, from)
	return errors.Join(err, compressed.Close())
}

// Remove closes and deletes every log of the run.
func (b *Store) Remove(run string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, stream := range []Stream{Main, PostActions} {
		path := b.filePath(run, stream)
		if f, ok := b.openFiles[path]; ok {
			f.close()
			delete(b.openFiles, path)
		}
		_ = os.Remove(path) // a leftover log only uses space
	}
}

var unsafeChars = regexp.MustCompile(`[^a-zA-Z0-9-]`)

func (b *Store) filePath(run string, stream Stream) string {
	return filepath.Join(b.dir, unsafeChars.ReplaceAllString(run, "_")+"-"+string(stream)+".log")
}

func (b *Store) openFile(run string, stream Stream) (*limitedFile, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.openLockedFile(run, stream)
}

func (b *Store) openLockedFile(run string, stream Stream) (*limitedFile, error) {
	path := b.filePath(run, stream)
	if f, ok := b.openFiles[path]; ok {
		return f, nil
	}
	opened, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a run's log: %w", err)
	}
	info, err := opened.Stat()
	if err != nil {
		return nil, fmt.Errorf("opening a run's log: %w", err)
	}
	f := &limitedFile{file: opened, remaining: MaxFileBytes - info.Size()}
	b.openFiles[path] = f
	return f, nil
}

// limitedFile is one log with its limit.
type limitedFile struct {
	mu        sync.Mutex
	file      *os.File
	remaining int64
	// changed is closed at the next write, and when the file is closed; nil if nothing waits for that.
	changed chan struct{}
}

// Write writes one line, or drops it when the file is full or closed.
func (f *limitedFile) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil || f.remaining < 0 {
		return len(line), nil
	}
	defer f.notifyFollowers()
	if f.remaining < int64(len(line)) {
		f.remaining = -1
		_, err := f.file.WriteString("level=WARN msg=\"This log is full; further lines are dropped\"\n")
		return len(line), err
	}
	f.remaining -= int64(len(line))
	return f.file.Write(line)
}

func (f *limitedFile) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.file.Close() // every write has already reached the kernel
	f.file = nil
	f.notifyFollowers()
}

// notifyFollowers wakes all followers. The caller holds the lock.
func (f *limitedFile) notifyFollowers() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// nextChange returns a channel that is closed at the next change; nil if there is none.
func (f *limitedFile) nextChange() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.changed
}

// follower reads a log that is written by the same process.
type follower struct {
	io.ReadCloser
	ctx  context.Context //nolint:containedctx // io.Reader has no context
	file *limitedFile
}

// Read implements io.Reader.
func (f *follower) Read(p []byte) (int, error) {
	for {
		change := f.file.nextChange() // before the read: a line that comes after it ends the wait
		n, err := f.ReadCloser.Read(p)
		if n > 0 || !errors.Is(err, io.EOF) || change == nil {
			return n, err
		}
		select {
		case <-change:
		case <-f.ctx.Done():
			return 0, f.ctx.Err()
		}
	}
}
