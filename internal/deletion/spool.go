// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

// maxEntries is how many files of an archive are read. What is remembered of them takes less
// than a quarter of the operator's memory limit.
const maxEntries = 4_000_000

// scratchFile is the part of scratch.File that a spool needs.
type scratchFile interface {
	io.ReaderAt
	io.Closer
}

// spool is an archive in an unnamed scratch file, compressed as it is stored. Actions take
// longer than a connection to a store would last, and there are several rounds.
type spool struct {
	file   scratchFile
	size   int64
	limits archive.Limits
	// digestMismatch is set if the archive does not have the expected digest.
	digestMismatch bool
}

// fetchArchive copies an archive into a scratch file, as far as the limits allow. An archive
// with a different digest is no error, a failure of the store or the disk is. The error is
// objectstore.ErrNotExist if there is no archive.
func (j *Runner) fetchArchive(ctx context.Context, store *storage.Store, name string, want storage.Digest) (_ *spool, err error) {
	source, err := store.GetFile(ctx, name, storage.Contents)
	if err != nil {
		return nil, err
	}
	defer func() { _ = source.Close() }() // it was only read from
	file, err := j.Scratch.CreateFile(0)  // the size in a damaged manifest must not stop a deletion
	if err != nil {
		return nil, fmt.Errorf("copying the archive of backup %q: %w", name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	limit := min(cmp.Or(j.Limits.TotalBytes, archive.DefaultTotalBytes), math.MaxInt64-1)
	if want.Size > 0 {
		limit = min(limit, want.Size)
	}
	hash := sha256.New()
	size, err := io.Copy(io.MultiWriter(file, hash), io.LimitReader(source, limit+1))
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("copying the archive of backup %q: %w", name, err)
	}
	s := &spool{file: file, size: size, limits: j.Limits}
	s.digestMismatch = want.SHA256 != "" && want.SHA256 != hex.EncodeToString(hash.Sum(nil))
	if s.limits.Entries == 0 || s.limits.Entries > maxEntries {
		s.limits.Entries = maxEntries
	}
	return s, nil
}

// walkArchiveEntries goes through the archive. It calls visit with a number for each entry, which
// is the same every time. err is the first error of visit, of ctx or of the scratch file. damage is
// the damage of the archive, after the visited entries.
func (s *spool) walkArchiveEntries(ctx context.Context, visit func(at int64, entry archive.Entry) error) (damage, err error) {
	at := int64(0)
	source := &errorRecordingReader{Reader: io.NewSectionReader(s.file, 0, s.size)}
	damage = archive.Walk(source, s.limits, func(entry archive.Entry) error {
		if err = ctx.Err(); err == nil {
			err = visit(at, entry)
		}
		at++
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case source.err != nil:
		return nil, fmt.Errorf("reading the archive from the directory given by --scratch-dir: %w", source.err)
	}
	return damage, nil
}

func (s *spool) close() { _ = s.file.Close() } // without a name, closing it also removes it

// errorRecordingReader records the error of a Reader, to distinguish a failing disk from a damaged
// file.
type errorRecordingReader struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (s *errorRecordingReader) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}
