// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/scratch"
)

// maxFormatVersion is the length of the content of metadata/version.
const maxFormatVersion = 64

// SpoolOptions are the options of NewSpool.
type SpoolOptions struct {
	// Dir is where the scratch file is created if Scratch is nil. The default is the
	// system's directory for temporary files. No file remains there in any case.
	Dir string
	// Scratch is the directory of the scratch file, if its space is shared with others.
	Scratch *scratch.Dir
	// Limits of the archive. TotalBytes limits the scratch file too.
	Limits Limits
	// SHA256 of the compressed archive in hexadecimal, empty if unknown.
	SHA256 string
	// Size of the compressed archive in bytes, 0 if unknown.
	Size int64
}

// Spool is a verified archive that can be read in any order. Its content is in one unnamed
// scratch file, so no other process can change it, and it is deleted with the process. All
// methods except Close may be called concurrently.
type Spool struct {
	file          *scratch.File
	formatVersion string
	resources     []Resource
	index         *spoolIndex
}

// Resource is a resource type in an archive.
type Resource struct {
	// Name is "deployments.apps" or, in the core group, "pods".
	Name string
	// Versions of the objects, in lexical order. It is empty if no path has a version, as
	// in format versions below 1.1.0.
	Versions []string
	// Preferred is the one of Versions that the API server preferred. It is empty if the
	// archive has none.
	Preferred string
}

// SpooledObject is one object in a Spool, in one version. It belongs to that Spool.
type SpooledObject struct {
	// Namespace of the object, empty for a cluster-scoped one.
	Namespace string
	// Name of the object.
	Name string

	offset, size int64
}

// Size returns the size of the JSON of the object in bytes.
func (o *SpooledObject) Size() int64 { return o.size }

// NewSpool reads the archive r to its end and returns it for reading in any order. Before
// it returns, it verifies the digest and size of opts (ErrDigestMismatch), the checksum of
// the compression, and the Limits (ErrLimitExceeded). It also verifies that there are only
// files with a path of the format (ErrInvalidName), each once (ErrDuplicate), with nothing
// after them (ErrTrailingData), and that the preferred version is unambiguous
// (ErrAmbiguous). It does not parse the objects. An error of the scratch file is
// scratch.ErrUnusable. The caller must Close the Spool. After an error there is no Spool,
// and nothing is left behind. NewSpool stops when ctx ends.
func NewSpool(ctx context.Context, r io.Reader, opts SpoolOptions) (_ *Spool, err error) {
	dir := opts.Scratch
	if dir == nil {
		dir = &scratch.Dir{Path: opts.Dir}
	}
	// The spooled content is hardly smaller than the archive, although only one of two
	// copies is stored.
	file, err := dir.CreateFile(opts.Size)
	if err != nil {
		return nil, fmt.Errorf("spooling archive: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	s := newSpooler(file, opts)
	if err := s.spoolAll(newVerifier(r, opts.SHA256, opts.Size, ctx.Err), opts.Limits); err != nil {
		return nil, err
	}
	resources, err := s.index.buildResources()
	if err != nil {
		return nil, fmt.Errorf("reading archive: %w", err)
	}
	return &Spool{file: file, formatVersion: s.formatVersion, resources: resources, index: s.index}, nil
}

// spooler is the state of one NewSpool.
type spooler struct {
	out           *bufio.Writer
	index         *spoolIndex
	metadataPaths *pathSet
	formatVersion string
	// bytesLeft is how many bytes the archive may still have. Walk does not count holes in
	// sparse files, which take no bytes in the archive.
	bytesLeft int64
	// endOffset is the end of the written data, and last the content written right before
	// it.
	endOffset int64
	last      []byte
}

func newSpooler(out io.Writer, opts SpoolOptions) *spooler {
	limits := opts.Limits.withDefaults()
	return &spooler{
		out: bufio.NewWriterSize(out, outputBufferSize), bytesLeft: limits.TotalBytes,
		index: newSpoolIndex(limits.IndexBytes), metadataPaths: newPathSet(),
	}
}

// isNewEntry leaves the detection of duplicates to the index, which needs no additional
// memory for it.
func (s *spooler) isNewEntry(entry Entry) bool {
	return entry.IsObject() || s.metadataPaths.addPath([]byte(entry.Path))
}

// spoolAll spools the whole archive.
func (s *spooler) spoolAll(source io.Reader, limits Limits) error {
	if err := walkEntries(source, limits, s.isNewEntry, s.spoolEntry); err != nil {
		return err
	}
	// The verification ends with the last byte, whether or not Walk needed it.
	if _, err := io.Copy(io.Discard, source); err != nil {
		return fmt.Errorf("reading archive: %w", err)
	}
	if err := s.out.Flush(); err != nil {
		return fmt.Errorf("spooling archive: %w", err)
	}
	return nil
}

// spoolEntry spools one file of the archive.
func (s *spooler) spoolEntry(entry Entry) error {
	if !entry.IsObject() {
		return s.spoolMetadata(entry)
	}
	if s.bytesLeft -= int64(len(entry.Content)); s.bytesLeft < 0 {
		return fmt.Errorf("reading archive: %w: too many bytes", ErrLimitExceeded)
	}
	// The two copies of an object are adjacent in the archives of every writer of the
	// format. They share their bytes.
	if !bytes.Equal(entry.Content, s.last) {
		if _, err := s.out.Write(entry.Content); err != nil {
			return fmt.Errorf("spooling archive: %w", err)
		}
		s.last = append(s.last[:0], entry.Content...)
		s.endOffset += int64(len(s.last))
	}
	size := int64(len(s.last))
	if err := s.index.addObjectRef(entry.Object, s.endOffset-size, size); err != nil {
		return fmt.Errorf("reading archive: %w", err)
	}
	return nil
}

// spoolMetadata handles a file that is not an object.
func (s *spooler) spoolMetadata(entry Entry) error {
	if entry.Path != versionPath {
		return nil
	}
	if len(entry.Content) > maxFormatVersion {
		return fmt.Errorf("reading archive: %w: %q has %d bytes", ErrLimitExceeded, entry.Path, len(entry.Content))
	}
	s.formatVersion = strings.TrimSpace(string(entry.Content))
	return nil
}

// FormatVersion returns the format version of the archive, for example "1.1.0", or "" if it
// has none.
func (s *Spool) FormatVersion() string { return s.formatVersion }

// Resources returns the resource types in the archive, sorted by name. The result is shared
// and must not be changed.
func (s *Spool) Resources() []Resource { return s.resources }

// Objects returns the objects of a resource ("deployments.apps") in a version, or those
// that are stored without a version.
func (s *Spool) Objects(resource, version string) Objects {
	return s.index.objectsInVersion(resource, version)
}

// Len returns the number of objects, where each stored copy counts.
func (s *Spool) Len() int { return s.index.files }

// Read returns the content of an object of this Spool, in buf if it has the
// capacity.
func (s *Spool) Read(item SpooledObject, buf []byte) ([]byte, error) {
	if int64(cap(buf)) < item.size {
		buf = make([]byte, item.size)
	}
	buf = buf[:item.size]
	if _, err := s.file.ReadAt(buf, item.offset); err != nil {
		return nil, fmt.Errorf("reading %q from the spool: %w", item.Name, toUnexpectedEOF(err))
	}
	return buf, nil
}

// Close frees the scratch file. Read fails from then on.
func (s *Spool) Close() error { return s.file.Close() }
