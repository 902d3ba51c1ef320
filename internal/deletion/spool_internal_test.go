// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/archive"
)

// TestWalkArchiveEntries_ReadErrors: neither a failing disk nor the end of a run is damage of the
// archive, which the deletion would record before it continues.
func TestWalkArchiveEntries_ReadErrors(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "archive"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := archive.NewWriter(file, archive.WriterOptions{})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	s := &spool{file: file, size: info.Size()}
	nothing := func(int64, archive.Entry) error { return nil }
	if damage, err := s.walkArchiveEntries(t.Context(), nothing); damage != nil || err != nil {
		t.Fatalf("a good archive: %v, %v", damage, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if damage, err := s.walkArchiveEntries(ended, nothing); damage != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the run: %v, %v", damage, err)
	}
	s.close()
	if damage, err := s.walkArchiveEntries(t.Context(), nothing); damage != nil || !errors.Is(err, os.ErrClosed) {
		t.Errorf("without the file: %v, %v", damage, err)
	}
}
