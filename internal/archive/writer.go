// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/flate"
)

const (
	// DefaultLevel of compression. On objects of Kubernetes level 1 writes
	// about as fast as the API server can list; the second copy of an object
	// is found inside the window and costs next to nothing at any level.
	DefaultLevel = flate.BestSpeed

	// pathBufferSize is enough for nearly every path; longer ones are allocated.
	pathBufferSize = 384
)

// ErrDuplicate is returned by Add for an object that is in the archive already.
var ErrDuplicate = errors.New("object is in the archive already")

// errClosed is returned by Add and Close after Close.
var errClosed = errors.New("archive is closed")

// WriterOptions are the options of NewWriter.
type WriterOptions struct {
	// Level of compression, 1 to 9; 0 means DefaultLevel.
	Level int
	// ModTime is the modification time of every file, whole seconds.
	ModTime time.Time
}

// Item is one object to be archived.
type Item struct {
	Identity
	// Claimed says that the caller holds the claim on the object (see
	// Writer.Claim); otherwise Add claims it.
	Claimed bool
	// JSON is the object as one compact JSON value. It is not kept after Add.
	JSON []byte
}

// Writer writes one archive. Claim and Has may be called from any goroutine;
// everything else from one at a time.
type Writer struct {
	claims  *hashSet
	headers *headers
	gzip    *compressor
	scratch []byte
	// err is the first failure of the underlying writer. After it the archive
	// is lost, and every call returns it.
	err error
}

var zeros [2 * blockSize]byte

// NewWriter starts an archive on out and writes its first entry, the format
// version. The caller must Close the Writer, and closes out itself.
func NewWriter(out io.Writer, opts WriterOptions) (*Writer, error) {
	if opts.Level == 0 {
		opts.Level = DefaultLevel
	}
	hdrs, err := newHeaders(opts.ModTime)
	if err != nil {
		return nil, err
	}
	compressed, err := newCompressor(out, opts.Level)
	if err != nil {
		return nil, err
	}
	w := &Writer{claims: newHashSet(), headers: hdrs, gzip: compressed}
	if err := w.file([]byte(versionPath), []byte(FormatVersion+"\n")); err != nil {
		return nil, err
	}
	return w, nil
}

// Claim reserves an object for the caller and reports whether it was free. It
// lets a caller find out that an object is, or will be, in the archive before
// it spends work on it.
func (w *Writer) Claim(id Identity) bool {
	var path [pathBufferSize]byte
	return w.claims.add(id.appendPath(path[:0], true))
}

// Has reports whether an object was claimed or added.
func (w *Writer) Has(id Identity) bool {
	var path [pathBufferSize]byte
	return w.claims.has(id.appendPath(path[:0], true))
}

// Add writes one object: twice if its version is the preferred one, once
// otherwise. An error that is ErrInvalidName or ErrDuplicate concerns this
// object only; after any other error the archive is lost.
func (w *Writer) Add(item Item) error {
	if err := item.Validate(); err != nil {
		return err
	}
	if !item.Claimed && !w.Claim(item.Identity) {
		return fmt.Errorf("%w: %s", ErrDuplicate, item.Path())
	}
	if item.Preferred {
		if err := w.object(item, false); err != nil {
			return err
		}
	}
	return w.object(item, true)
}

// object writes one of the copies of an object.
func (w *Writer) object(item Item, versioned bool) error {
	var path [pathBufferSize]byte
	return w.file(item.appendPath(path[:0], versioned), item.JSON)
}

// file writes one regular file.
func (w *Writer) file(path, content []byte) error {
	if w.err != nil {
		return w.err
	}
	header, err := w.headers.appendTo(w.scratch[:0], path, len(content))
	if err != nil {
		return fmt.Errorf("%w: %q: %w", ErrInvalidName, string(path), err)
	}
	w.scratch = header
	if err := w.gzip.prepare(content); err != nil {
		w.err = fmt.Errorf("writing archive: %w", err)
		return w.err
	}
	w.write(header)
	w.write(content)
	if tail := len(content) % blockSize; tail != 0 {
		w.write(zeros[:blockSize-tail])
	}
	return w.err
}

func (w *Writer) write(p []byte) {
	if w.err != nil {
		return
	}
	if _, err := w.gzip.Write(p); err != nil {
		w.err = fmt.Errorf("writing archive: %w", err)
	}
}

// Close completes the archive. Without it the archive cannot be read.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	w.write(zeros[:])
	if w.err != nil {
		return w.err
	}
	if err := w.gzip.Close(); err != nil {
		w.err = fmt.Errorf("completing archive: %w", err)
		return w.err
	}
	w.err = errClosed
	return nil
}
