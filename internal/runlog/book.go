// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package runlog

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/go-logr/logr"
	"github.com/klauspost/compress/gzip"

	"github.com/grapnel-dev/grapnel/internal/redact"
)

// Stream is one of the logs of a run.
type Stream string

// The streams of a run.
const (
	// Main is what is logged up to the outcome.
	Main Stream = "main"
	// PostActions is what the actions after it log.
	PostActions Stream = "post"
)

// Limit is how many bytes of lines one file takes.
const Limit = 64 << 20

// Book holds the open logs. It is safe for concurrent use.
type Book struct {
	dir      string
	redactor *redact.Redactor

	mu   sync.Mutex
	open map[string]*file
}

// New returns a Book that keeps its files in dir, which it creates.
func New(dir string, redactor *redact.Redactor) (*Book, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder for run logs: %w", err)
	}
	return &Book{dir: dir, redactor: redactor, open: map[string]*file{}}, nil
}

// Redactor returns what keeps secrets out of the logs.
func (b *Book) Redactor() *redact.Redactor { return b.redactor }

// Logger returns a logger that writes to a stream of the run. Where the file
// can not be written, the lines are dropped: a full disk must not end a backup.
func (b *Book) Logger(run string, stream Stream) logr.Logger {
	f, err := b.file(run, stream)
	if err != nil {
		return logr.Discard()
	}
	handler := slog.NewTextHandler(f, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: b.redactor.ReplaceAttr})
	return logr.FromSlogHandler(handler)
}

// Reader returns everything that a stream of the run holds now; nil if nothing
// was ever logged there.
func (b *Book) Reader(run string, stream Stream) (io.ReadCloser, error) {
	f, err := os.Open(b.path(run, stream))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening a run's log: %w", err)
	}
	return f, nil
}

// Compressed is Reader with gzip over it. A log that can not be read ends with the
// error.
func (b *Book) Compressed(run string, stream Stream) (io.ReadCloser, error) {
	log, err := b.Reader(run, stream)
	if err != nil || log == nil {
		return nil, err
	}
	reader, writer := io.Pipe()
	go func() {
		compressed := gzip.NewWriter(writer)
		_, err := io.Copy(compressed, log)
		err = errors.Join(err, compressed.Close(), log.Close())
		_ = writer.CloseWithError(err) // always nil
	}()
	return reader, nil
}

// Remove closes and deletes every log of the run.
func (b *Book) Remove(run string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, stream := range []Stream{Main, PostActions} {
		path := b.path(run, stream)
		if f, ok := b.open[path]; ok {
			f.close()
			delete(b.open, path)
		}
		_ = os.Remove(path) // a log left behind costs space and nothing else
	}
}

var unsafe = regexp.MustCompile(`[^a-zA-Z0-9-]`)

func (b *Book) path(run string, stream Stream) string {
	return filepath.Join(b.dir, unsafe.ReplaceAllString(run, "_")+"-"+string(stream)+".log")
}

func (b *Book) file(run string, stream Stream) (*file, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	path := b.path(run, stream)
	if f, ok := b.open[path]; ok {
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
	f := &file{file: opened, left: Limit - info.Size()}
	b.open[path] = f
	return f, nil
}

// file is one log with its limit.
type file struct {
	mu   sync.Mutex
	file *os.File
	left int64
}

// Write writes one line, or drops it when the file is full or closed.
func (f *file) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil || f.left < 0 {
		return len(line), nil
	}
	if f.left < int64(len(line)) {
		f.left = -1
		_, err := f.file.WriteString("level=WARN msg=\"This log is full, what follows is dropped\"\n")
		return len(line), err
	}
	f.left -= int64(len(line))
	return f.file.Write(line)
}

func (f *file) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.file.Close() // every write went to the kernel already
	f.file = nil
}
