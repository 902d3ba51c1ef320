// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
)

// TestReadResultsFile_Limit: a small compressed file may be endless after decompression.
func TestReadResultsFile_Limit(t *testing.T) {
	store := storage.New(memory.New(), "")
	err := putRestoreFile(t.Context(), store, "again", storage.RestoreResults, func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Repeat(" ", 1000))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if data, err := readResultsFile(t.Context(), store, "again", 1000); err != nil || len(data) != 1000 {
		t.Errorf("read %d bytes: %v", len(data), err)
	}
	if _, err := readResultsFile(t.Context(), store, "again", 999); !errors.Is(err, ErrResultsUnreadable) || !strings.Contains(err.Error(), "more than 999 bytes") {
		t.Errorf("error %v", err)
	}
}
