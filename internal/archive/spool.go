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
	"os"
	"strings"
)

// maxFormatVersion is the length of the content of metadata/version.
const maxFormatVersion = 64

// SpoolOptions are the options of NewSpool.
type SpoolOptions struct {
	// Dir is where the scratch file is made, the system's folder for temporary
	// files by default. Nothing is left there, whatever happens.
	Dir string
	// Limits of the archive. TotalBytes limits the scratch file too.
	Limits Limits
	// IndexBytes limits the memory that remembers which object is where, by an
	// estimate; default 256 MiB, a quarter of what the operator's container may
	// have. An object of usual names takes 60 bytes.
	IndexBytes int64
	// SHA256 of the compressed archive in hexadecimal, empty if it is not known.
	SHA256 string
	// Size of the compressed archive in bytes, 0 if it is not known.
	Size int64
}

// Spool is an archive that was read to its end, found good, and can be read in
// any order. Its content is in one scratch file that has no name, so that
// nobody can change it and that it is gone with the process. Everything but
// Close may be called from any goroutine at any time.
type Spool struct {
	file          *os.File
	formatVersion string
	resources     []Resource
	index         *index
}

// Resource is a kind of objects in an archive.
type Resource struct {
	// Name is "deployments.apps" or, in the core group, "pods".
	Name string
	// Versions in which there are objects, in the order of strings. It is empty
	// if no path has a version, as in format versions below 1.1.0.
	Versions []string
	// Preferred is the one of Versions that the API server preferred. It is
	// empty if the archive says none.
	Preferred string
}

// Spooled is one object in a Spool, in one version. It belongs to that Spool.
type Spooled struct {
	// Namespace of the object, empty for a cluster-scoped one.
	Namespace string
	// Name of the object.
	Name string

	offset, size int64
}

// NewSpool reads the archive r to its end and returns it for reading in any
// order. Before it returns, everything was verified: the digest and size of
// opts (ErrDigest), the checksum of the compression, the Limits (ErrLimit),
// that there is nothing but files with a path of the format (ErrInvalidName),
// each once (ErrDuplicate), with nothing behind them (ErrTrailingData), and
// that it is clear which version is the preferred one (ErrAmbiguous). It does
// not look into the objects. The caller must Close the Spool; after an error
// there is none, and nothing is left behind. It ends early when ctx does.
func NewSpool(ctx context.Context, r io.Reader, opts SpoolOptions) (_ *Spool, err error) {
	file, err := scratchFile(opts.Dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	s := newSpooler(file, opts)
	if err := s.readAll(newVerifier(r, opts.SHA256, opts.Size, ctx.Err), opts.Limits); err != nil {
		return nil, err
	}
	resources, err := s.index.finish()
	if err != nil {
		return nil, fmt.Errorf("reading archive: %w", err)
	}
	return &Spool{file: file, formatVersion: s.formatVersion, resources: resources, index: s.index}, nil
}

// scratchFile makes a file that only its descriptor leads to.
func scratchFile(dir string) (*os.File, error) {
	file, err := os.CreateTemp(dir, ".grapnel-spool-*")
	if err != nil {
		return nil, fmt.Errorf("spooling archive: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, fmt.Errorf("spooling archive: %w", errors.Join(err, file.Close()))
	}
	return file, nil
}

// spooler is the state of one NewSpool.
type spooler struct {
	out           *bufio.Writer
	index         *index
	metadataPaths *hashSet
	formatVersion string
	// left is how many bytes the archive may still have. Walk does not count
	// holes in sparse files, which take no bytes in the archive.
	left int64
	// end of what was written, and the content written last, right before it.
	end  int64
	last []byte
}

func newSpooler(out io.Writer, opts SpoolOptions) *spooler {
	return &spooler{
		out:   bufio.NewWriterSize(out, outputBufferSize),
		left:  opts.Limits.withDefaults().TotalBytes,
		index: newIndex(opts.IndexBytes),

		metadataPaths: newHashSet(),
	}
}

// isNew leaves it to the index to find an object that is there twice, which
// needs no memory for that.
func (s *spooler) isNew(entry Entry) bool {
	return entry.IsObject() || s.metadataPaths.add([]byte(entry.Path))
}

// readAll takes the whole archive.
func (s *spooler) readAll(source io.Reader, limits Limits) error {
	if err := walk(source, limits, s.isNew, s.add); err != nil {
		return err
	}
	// The verdict comes with the last byte, whether or not Walk needed it.
	if _, err := io.Copy(io.Discard, source); err != nil {
		return fmt.Errorf("reading archive: %w", err)
	}
	if err := s.out.Flush(); err != nil {
		return fmt.Errorf("spooling archive: %w", err)
	}
	return nil
}

// add takes one file of the archive.
func (s *spooler) add(entry Entry) error {
	if !entry.IsObject() {
		return s.metadata(entry)
	}
	if s.left -= int64(len(entry.Content)); s.left < 0 {
		return fmt.Errorf("reading archive: %w: too many bytes", ErrLimit)
	}
	// The two copies of an object are neighbours in the archives of every
	// writer of the format. They share their bytes.
	if !bytes.Equal(entry.Content, s.last) {
		if _, err := s.out.Write(entry.Content); err != nil {
			return fmt.Errorf("spooling archive: %w", err)
		}
		s.last = append(s.last[:0], entry.Content...)
		s.end += int64(len(s.last))
	}
	size := int64(len(s.last))
	if err := s.index.add(entry.Object, s.end-size, size); err != nil {
		return fmt.Errorf("reading archive: %w", err)
	}
	return nil
}

// metadata takes a file that is no object.
func (s *spooler) metadata(entry Entry) error {
	if entry.Path != versionPath {
		return nil
	}
	if len(entry.Content) > maxFormatVersion {
		return fmt.Errorf("reading archive: %w: %q has %d bytes", ErrLimit, entry.Path, len(entry.Content))
	}
	s.formatVersion = strings.TrimSpace(string(entry.Content))
	return nil
}

// FormatVersion returns what the archive says of its format, "1.1.0" for
// example, and nothing if it says nothing.
func (s *Spool) FormatVersion() string { return s.formatVersion }

// Resources returns what kinds of objects there are, sorted by name. The
// result is shared and must not be changed.
func (s *Spool) Resources() []Resource { return s.resources }

// Objects returns those of a resource ("deployments.apps") in a version, or
// those that are stored without one.
func (s *Spool) Objects(resource, version string) Objects {
	return s.index.objects(resource, version)
}

// Len returns the number of objects, each counted as often as it is stored.
func (s *Spool) Len() int { return s.index.files }

// Read returns the content of an object of this Spool, in buf if it has the
// capacity.
func (s *Spool) Read(item Spooled, buf []byte) ([]byte, error) {
	if int64(cap(buf)) < item.size {
		buf = make([]byte, item.size)
	}
	buf = buf[:item.size]
	if _, err := s.file.ReadAt(buf, item.offset); err != nil {
		return nil, fmt.Errorf("reading %q from the spool: %w", item.Name, noEOF(err))
	}
	return buf, nil
}

// Close frees the scratch file. Read fails from then on.
func (s *Spool) Close() error { return s.file.Close() }
