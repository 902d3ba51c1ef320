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
	// DefaultLevel of compression. For objects of Kubernetes, level 1 writes about as fast
	// as the API server can list. The second copy of an object is inside the window and
	// costs almost nothing at any level.
	DefaultLevel = flate.BestSpeed

	// pathBufferSize is enough for nearly every path; longer ones are allocated.
	pathBufferSize = 384
)

// ErrDuplicate is returned by AddObject for an object that is already in the archive.
var ErrDuplicate = errors.New("object is already in the archive")

// errClosed is returned by AddObject and Close after Close.
var errClosed = errors.New("archive is closed")

// WriterOptions are the options of NewWriter.
type WriterOptions struct {
	// Level of compression, 1 to 9; 0 means DefaultLevel.
	Level int
	// ModTime is the modification time of every file, whole seconds.
	ModTime time.Time
	// Limits of the archive, those of its readers.
	Limits Limits
}

// Item is one object to be archived.
type Item struct {
	Identity
	// Reserved reports that the caller has reserved the object (see Writer.ReserveObject);
	// otherwise AddObject reserves it.
	Reserved bool
	// JSON is the object as one compact JSON value. AddObject does not retain it.
	JSON []byte
}

// Writer writes one archive. ReserveObject and HasObject may be called concurrently; all
// other methods from one goroutine at a time.
type Writer struct {
	reserved *pathSet
	headers  *headerFormatter
	gzip     *compressor
	scratch  []byte
	limits   *limitChecker
	// err is the first failure of the underlying writer. After it the archive is unusable,
	// and every call returns it.
	err error
}

var zeros [2 * blockSize]byte

// NewWriter starts an archive on out and writes its first entry, the format version. The
// caller must Close the Writer, and close out.
func NewWriter(out io.Writer, opts WriterOptions) (*Writer, error) {
	if opts.Level == 0 {
		opts.Level = DefaultLevel
	}
	hdrs, err := newHeaderFormatter(opts.ModTime)
	if err != nil {
		return nil, err
	}
	limits := opts.Limits.withDefaults()
	compressed, err := newCompressor(out, opts.Level, limits)
	if err != nil {
		return nil, err
	}
	w := &Writer{reserved: newPathSet(), headers: hdrs, gzip: compressed, limits: newLimitChecker(limits)}
	if err := w.writeTarFile([]byte(versionPath), []byte(FormatVersion+"\n")); err != nil {
		return nil, err
	}
	return w, nil
}

// ReserveObject reserves an object for the caller and reports whether it was free. With it,
// a caller learns that an object is, or will be, in the archive before it spends work on
// the object.
func (w *Writer) ReserveObject(id Identity) bool {
	var path [pathBufferSize]byte
	return w.reserved.addPath(id.appendPath(path[:0], true))
}

// HasObject reports whether an object was reserved or added.
func (w *Writer) HasObject(id Identity) bool {
	var path [pathBufferSize]byte
	return w.reserved.hasPath(id.appendPath(path[:0], true))
}

// AddObject writes one object: twice if its version is the preferred one, once otherwise.
// ErrInvalidName, ErrTooLarge and ErrDuplicate concern only this object; after any other
// error the archive is unusable. The error is ErrLimitExceeded if the archive would exceed
// its Limits.
func (w *Writer) AddObject(item Item) error {
	if err := item.Validate(); err != nil {
		return err
	}
	var path [pathBufferSize]byte
	if err := w.limits.checkObjectSize(len(item.appendPath(path[:0], true)), len(item.JSON)); err != nil {
		return err
	}
	if !item.Reserved && !w.ReserveObject(item.Identity) {
		return fmt.Errorf("%w: %s", ErrDuplicate, item.Path())
	}
	if item.Preferred {
		plain := item.Identity
		plain.Version, plain.Preferred = "", false
		if err := w.writeObjectCopy(plain, item.JSON); err != nil {
			return err
		}
	}
	return w.writeObjectCopy(item.Identity, item.JSON)
}

// writeObjectCopy writes one of the copies of an object.
func (w *Writer) writeObjectCopy(id Identity, content []byte) error {
	if w.err != nil {
		return w.err
	}
	if w.err = w.limits.countObject(id); w.err != nil {
		return w.err
	}
	var path [pathBufferSize]byte
	return w.writeTarFile(id.appendPath(path[:0], id.Version != ""), content)
}

// writeTarFile writes one regular file.
func (w *Writer) writeTarFile(path, content []byte) error {
	if w.err != nil {
		return w.err
	}
	header, err := w.headers.appendHeader(w.scratch[:0], path, len(content))
	if err != nil {
		return fmt.Errorf("%w: %q: %w", ErrInvalidName, string(path), err)
	}
	w.scratch = header
	blocks := len(header) + (len(content)+blockSize-1)/blockSize*blockSize
	if w.err = w.limits.countFile(w.gzip.written + int64(blocks+len(zeros))); w.err != nil {
		return w.err
	}
	if err := w.gzip.selectMethod(content); err != nil {
		w.err = fmt.Errorf("writing archive: %w", err)
		return w.err
	}
	w.writeCompressed(header)
	w.writeCompressed(content)
	if tail := len(content) % blockSize; tail != 0 {
		w.writeCompressed(zeros[:blockSize-tail])
	}
	return w.err
}

func (w *Writer) writeCompressed(p []byte) {
	if w.err != nil {
		return
	}
	if _, err := w.gzip.Write(p); err != nil {
		w.err = fmt.Errorf("writing archive: %w", err)
	}
}

// Close completes the archive. Without it, the archive cannot be read.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	w.writeCompressed(zeros[:])
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
