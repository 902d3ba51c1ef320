// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
)

var (
	// ErrLimit is returned by Walk when an archive exceeds one of its limits.
	ErrLimit = errors.New("archive exceeds limit")
	// ErrTrailingData is returned by Walk for an archive that goes on after its
	// end: a second one, for example, of which nobody would see anything.
	ErrTrailingData = errors.New("archive goes on after its end")
)

// Limits bound what Walk accepts. A zero field means its default.
type Limits struct {
	// Entries in the archive, default 20 million.
	Entries int64
	// EntryBytes is the size of one file, default 16 MiB. The API server's own
	// limit is 3 MiB for a request and 1.5 MiB in etcd.
	EntryBytes int64
	// TotalBytes of the archive after decompression, default 1 TiB.
	TotalBytes int64
	// PathBytes is the length of one path, default 1024.
	PathBytes int
}

func (l Limits) withDefaults() Limits {
	if l.Entries == 0 {
		l.Entries = 20_000_000
	}
	if l.EntryBytes == 0 {
		l.EntryBytes = 16 << 20
	}
	if l.TotalBytes == 0 {
		l.TotalBytes = 1 << 40
	}
	if l.PathBytes == 0 {
		l.PathBytes = 1024
	}
	return l
}

// Entry is one file of an archive.
type Entry struct {
	// Path as stored, but without "./" in front.
	Path string
	// Object is what the path says, and the zero Identity for files below
	// metadata/.
	Object Identity
	// Content of the file, valid until the callback returns.
	Content []byte
}

// IsObject reports whether the entry holds an object.
func (e Entry) IsObject() bool { return e.Object != (Identity{}) }

// Walk reads an archive from r and calls visit for each of its files, in
// order. It stops at the first error of visit and returns it. The archive is
// treated as hostile: anything but regular files with paths of the format,
// each at most once, within the limits, with nothing behind them, is an error
// (ErrInvalidName, ErrDuplicate, ErrLimit, ErrTrailingData or one of the
// decoders). Folder entries and "./" in front of paths, which other writers
// add, are passed over.
func Walk(r io.Reader, limits Limits, visit func(Entry) error) error {
	seen := newHashSet()
	return walk(r, limits, func(entry Entry) bool { return seen.add([]byte(entry.Path)) }, visit)
}

// walk is Walk with another way to find what is there twice. The entries that
// isNew is asked about have no content yet.
func walk(r io.Reader, limits Limits, isNew func(Entry) bool, visit func(Entry) error) error {
	limits = limits.withDefaults()
	decompressed, err := gzip.NewReader(bufio.NewReaderSize(r, outputBufferSize))
	if err != nil {
		return fmt.Errorf("reading archive: %w", err)
	}
	defer func() { _ = decompressed.Close() }()
	capped := &cappedReader{r: decompressed, left: limits.TotalBytes}
	w := walker{limits: limits, tar: tar.NewReader(capped), isNew: isNew}
	for {
		entry, err := w.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading archive: %w", err)
		}
		if err := visit(entry); err != nil {
			return err
		}
	}
	// The checksum of the gzip stream is compared only at its end. Before it,
	// writers of tar may fill up their last record with zeros.
	if _, err := io.Copy(zeroWriter{}, capped); err != nil {
		return fmt.Errorf("reading archive: %w", err)
	}
	return nil
}

// walker is the state of one Walk.
type walker struct {
	limits  Limits
	tar     *tar.Reader
	isNew   func(Entry) bool
	entries int64
	content []byte
}

// next returns the next regular file, and io.EOF alone after the last.
func (w *walker) next() (Entry, error) {
	for {
		header, err := w.tar.Next()
		if errors.Is(err, io.EOF) {
			return Entry{}, io.EOF
		}
		if err != nil {
			return Entry{}, fmt.Errorf("next entry: %w", err)
		}
		w.entries++
		header.Name = strings.TrimPrefix(header.Name, "./")
		if err := w.check(header); err != nil {
			return Entry{}, err
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		return w.entry(header)
	}
}

// check refuses what no archive of ours or Velero's contains.
func (w *walker) check(header *tar.Header) error {
	switch {
	case w.entries > w.limits.Entries:
		return fmt.Errorf("%w: more than %d entries", ErrLimit, w.limits.Entries)
	case len(header.Name) > w.limits.PathBytes:
		return fmt.Errorf("%w: path of %d bytes", ErrLimit, len(header.Name))
	case header.Typeflag != tar.TypeReg && header.Typeflag != tar.TypeDir:
		return fmt.Errorf("%w: %q is neither a file nor a folder", ErrInvalidName, header.Name)
	case header.Size > w.limits.EntryBytes:
		return fmt.Errorf("%w: %q has %d bytes", ErrLimit, header.Name, header.Size)
	}
	return nil
}

// entry reads the content of one regular file.
func (w *walker) entry(header *tar.Header) (Entry, error) {
	entry := Entry{Path: header.Name}
	if !isMetadataPath(header.Name) {
		id, err := parsePath(header.Name)
		if err != nil {
			return Entry{}, err
		}
		entry.Object = id
	}
	if !w.isNew(entry) {
		return Entry{}, fmt.Errorf("%w: %q", ErrDuplicate, header.Name)
	}
	if int64(cap(w.content)) < header.Size {
		w.content = make([]byte, header.Size)
	}
	w.content = w.content[:header.Size]
	if _, err := io.ReadFull(w.tar, w.content); err != nil {
		return Entry{}, fmt.Errorf("%q: %w", header.Name, noEOF(err))
	}
	entry.Content = w.content
	return entry, nil
}

// isMetadataPath reports whether path is a file directly below metadata/.
func isMetadataPath(path string) bool {
	name, ok := strings.CutPrefix(path, "metadata/")
	return ok && validElement(name)
}

// noEOF keeps a truncated file from looking like the end of the archive.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// cappedReader fails once more than a number of bytes were read.
type cappedReader struct {
	r    io.Reader
	left int64
}

func (c *cappedReader) Read(p []byte) (int, error) {
	if c.left <= 0 {
		// One byte more decides whether the stream ends here or goes on.
		var one [1]byte
		if n, err := c.r.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, fmt.Errorf("%w: too many bytes", ErrLimit)
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.r.Read(p)
	c.left -= int64(n)
	return n, err
}

// zeroWriter takes nothing but zeros.
type zeroWriter struct{}

// Write implements io.Writer.
func (zeroWriter) Write(p []byte) (int, error) {
	for _, b := range p {
		if b != 0 {
			return 0, ErrTrailingData
		}
	}
	return len(p), nil
}
