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

// ErrTrailingData is returned by Walk for an archive that continues after its end, for
// example with a second archive that would be ignored.
var ErrTrailingData = errors.New("archive continues after its end")

// Entry is one file of an archive.
type Entry struct {
	// Path as stored, without a leading "./".
	Path string
	// Object is parsed from the path. It is the zero Identity for files below metadata/.
	Object Identity
	// Content of the file, valid until the callback returns.
	Content []byte
}

// IsObject reports whether the entry is an object.
func (e Entry) IsObject() bool { return e.Object != (Identity{}) }

// Walk reads an archive from r and calls visit for each of its files, in order. It stops at
// the first error of visit and returns it. The archive is treated as hostile: it may
// contain only regular files with paths of the format, each at most once, within the
// limits, and nothing after them. Anything else is an error (ErrInvalidName, ErrDuplicate,
// ErrLimitExceeded, ErrTrailingData or one of the decoders). Walk skips directory entries,
// and ignores a leading "./" of paths, which other writers add.
func Walk(r io.Reader, limits Limits, visit func(Entry) error) error {
	seen := newPathSet()
	return walkEntries(r, limits, func(entry Entry) bool { return seen.addPath([]byte(entry.Path)) }, visit)
}

// walkEntries is Walk with another way to detect duplicates. The entries passed to isNew
// have no content yet.
func walkEntries(r io.Reader, limits Limits, isNew func(Entry) bool, visit func(Entry) error) error {
	limits = limits.withDefaults()
	// No compression adds more than a few bytes per 64 KiB. Without a limit, a stream of
	// empty blocks would be read forever.
	compressed := &countingReader{r: r, limit: limits.TotalBytes + limits.TotalBytes/1024 + outputBufferSize}
	decompressed, err := gzip.NewReader(bufio.NewReaderSize(compressed, outputBufferSize))
	if err != nil {
		return fmt.Errorf("reading archive: %w", err)
	}
	defer func() { _ = decompressed.Close() }()
	capped := &cappedReader{r: decompressed, limits: limits, compressed: compressed}
	w := walker{limits: limits, tar: tar.NewReader(capped), isNewEntry: isNew, compressed: compressed}
	for {
		entry, err := w.nextFileEntry()
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
	// The checksum of the gzip stream is compared only at its end. Before that, writers of
	// tar may pad their last record with zeros.
	if _, err := io.Copy(zeroWriter{}, capped); err != nil {
		return fmt.Errorf("reading archive: %w", err)
	}
	return nil
}

// walker is the state of one Walk.
type walker struct {
	limits     Limits
	tar        *tar.Reader
	isNewEntry func(Entry) bool
	entries    int64
	content    []byte
	// compressed counts the bytes read, and contents is the size of all files. Holes in
	// sparse files take no bytes in the archive.
	compressed   *countingReader
	contentTotal int64
}

// nextFileEntry returns the next regular file, and io.EOF alone after the last.
func (w *walker) nextFileEntry() (Entry, error) {
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
		if err := w.checkTarHeader(header); err != nil {
			return Entry{}, err
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		return w.readFileEntry(header)
	}
}

// checkTarHeader rejects headers that no archive of Grapnel or Velero contains.
func (w *walker) checkTarHeader(header *tar.Header) error {
	switch {
	case w.entries > w.limits.Entries:
		return fmt.Errorf("%w: more than %d entries", ErrLimitExceeded, w.limits.Entries)
	case len(header.Name) > w.limits.PathBytes:
		return fmt.Errorf("%w: path of %d bytes", ErrLimitExceeded, len(header.Name))
	case header.Typeflag != tar.TypeReg && header.Typeflag != tar.TypeDir:
		return fmt.Errorf("%w: %q is neither a file nor a directory", ErrInvalidName, header.Name)
	case header.Size > w.limits.EntryBytes:
		return fmt.Errorf("%w: %q has %d bytes", ErrLimitExceeded, header.Name, header.Size)
	}
	return nil
}

// readFileEntry reads the content of one regular file.
func (w *walker) readFileEntry(header *tar.Header) (Entry, error) {
	entry := Entry{Path: header.Name}
	if !isMetadataPath(header.Name) {
		id, err := parseObjectPath(header.Name)
		if err != nil {
			return Entry{}, err
		}
		entry.Object = id
	}
	if !w.isNewEntry(entry) {
		return Entry{}, fmt.Errorf("%w: %q", ErrDuplicate, header.Name)
	}
	w.contentTotal += header.Size
	if err := w.limits.checkRatio(w.compressed.read, w.contentTotal); err != nil {
		return Entry{}, err
	}
	if int64(cap(w.content)) < header.Size {
		w.content = make([]byte, header.Size)
	}
	w.content = w.content[:header.Size]
	if _, err := io.ReadFull(w.tar, w.content); err != nil {
		return Entry{}, fmt.Errorf("%q: %w", header.Name, toUnexpectedEOF(err))
	}
	entry.Content = w.content
	return entry, nil
}

// isMetadataPath reports whether path is a file directly below metadata/.
func isMetadataPath(path string) bool {
	name, ok := strings.CutPrefix(path, "metadata/")
	return ok && isValidPathElement(name)
}

// toUnexpectedEOF prevents a truncated file from looking like the end of the archive.
func toUnexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// cappedReader fails after a maximum number of bytes, or when the compression ratio is too
// large.
type cappedReader struct {
	r          io.Reader
	limits     Limits
	compressed *countingReader
	read       int64
}

func (c *cappedReader) Read(p []byte) (int, error) {
	left := c.limits.TotalBytes - c.read
	if left <= 0 {
		// One more byte shows whether the stream ends here or continues.
		var one [1]byte
		if n, err := c.r.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, fmt.Errorf("%w: too many bytes", ErrLimitExceeded)
	}
	if int64(len(p)) > left {
		p = p[:left]
	}
	n, err := c.r.Read(p)
	c.read += int64(n)
	if ratioErr := c.limits.checkRatio(c.compressed.read, c.read); ratioErr != nil {
		return 0, ratioErr
	}
	return n, err
}

// zeroWriter accepts only zeros.
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
