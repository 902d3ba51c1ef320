// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

// maxDraftBytes bounds a JSON file in bytes, after decompression. A draft lists the contents of
// a backup, up to some millions of objects. A bucket is not trusted.
const maxDraftBytes = 256 << 20

// GetJSON reads a file of a backup that PutJSON wrote into v. The
// error is objectstore.ErrNotExist if there is none, and a *CorruptError if it cannot be
// parsed.
func (s *Store) GetJSON(ctx context.Context, name string, file File, v any) error {
	r, err := s.GetFile(ctx, name, file)
	if err != nil {
		return err
	}
	source := &errorRecordingReader{r: r}
	err = decodeJSONGzip(source, v)
	switch {
	case source.err != nil:
		err = source.err // an error of the store, not of the content
	case err != nil:
		err = &CorruptError{Name: name, File: FileName(name, file), Reason: "cannot be read: " + err.Error()}
	}
	if err = errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("reading %s of backup %q: %w", file, name, err)
	}
	return nil
}

// decodeJSONGzip reads one compressed JSON value to its end, where its checksum is.
func decodeJSONGzip(r io.Reader, v any) error {
	plain, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	limited := &io.LimitedReader{R: plain, N: maxDraftBytes + 1}
	err = json.NewDecoder(limited).Decode(v)
	if err == nil {
		_, err = io.Copy(io.Discard, limited)
	}
	if limited.N == 0 {
		return fmt.Errorf("it has more than %d bytes", maxDraftBytes)
	}
	return err
}

// errorRecordingReader records an error of a reader other than io.EOF.
type errorRecordingReader struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (n *errorRecordingReader) Read(p []byte) (int, error) {
	read, err := n.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		n.err = err
	}
	return read, err
}

// RemoveDraft removes the files Draft, MergedContents and MergedDraft when the backup is
// complete or when they belong to an earlier attempt. It succeeds if there are none. The
// error is a *TakenError or ErrNotClaimed if they do not belong to uid.
func (s *Store) RemoveDraft(ctx context.Context, name, uid string) error {
	if err := s.removeDraft(ctx, name, uid); err != nil {
		return fmt.Errorf("removing the draft of backup %q: %w", name, err)
	}
	return nil
}

func (s *Store) removeDraft(ctx context.Context, name, uid string) error {
	st, err := s.inspectBackup(ctx, name, uid)
	if err != nil {
		return err
	}
	if err := st.checkAvailable(); err != nil {
		return err
	}
	if !st.isCommitted() && !st.hasActiveClaim() {
		return ErrNotClaimed
	}
	var keys []string
	for _, file := range []File{Draft, MergedContents, MergedDraft} {
		if base := FileName(name, file); st.hasFile(base) {
			keys = append(keys, s.backupDir(name)+base)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return s.objects.Delete(ctx, keys...)
}

// hasFile reports whether the directory of the backup has a file.
func (st *backupState) hasFile(base string) bool {
	_, found := st.sizes[base]
	return found
}
