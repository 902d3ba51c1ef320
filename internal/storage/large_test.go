// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
)

// TestReadManifest_TooLarge rejects manifests that take too much memory, and writes none that it
// could not read.
func TestReadManifest_TooLarge(t *testing.T) {
	const most = 4 << 20
	for _, file := range []string{"nightly-grapnel.json", "velero-backup.json"} {
		objects := memory.New()
		s := storage.New(objects, "")
		mustRun(t, s, "nightly", "u-1")
		large := `{"outputs":{` + strings.Repeat(`"0":{},`, most/7) + `"0":{}}}`
		if _, err := objects.Put(t.Context(), "backups/nightly/"+file, strings.NewReader(large), objectstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		_, _, err := s.ReadManifest(t.Context(), "nightly")
		var corrupt *storage.CorruptError
		if !errors.As(err, &corrupt) || corrupt.File != file || corrupt.Reason != "has more than 4194304 bytes" {
			t.Errorf("%s: error %v, want that it is too large", file, err)
		}
	}

	s := storage.New(memory.New(), "")
	if err := s.Claim(t.Context(), "nightly", claimOf("u-1")); err != nil {
		t.Fatal(err)
	}
	digest, err := putContents(t.Context(), s, "nightly", "u-1", strings.NewReader("archive"))
	if err != nil {
		t.Fatal(err)
	}
	m := manifest("u-1", "a", map[storage.File]storage.Digest{storage.Contents: digest})
	m.Grapnel.Backup = json.RawMessage(`"` + strings.Repeat("x", most) + `"`)
	if err := commit(t.Context(), s, "nightly", m); err == nil || !strings.Contains(err.Error(), "more than the limit") {
		t.Errorf("error %v, want that it is too large", err)
	}
	m.Grapnel.Backup = m.Grapnel.Backup[2000:]
	m.Grapnel.Backup[0] = '"'
	if err := commit(t.Context(), s, "nightly", m); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.ReadManifest(t.Context(), "nightly"); err != nil {
		t.Errorf("a written manifest cannot be read: %v", err)
	}
}
