// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"errors"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/panics"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
)

// exploding is a value that panics when it is encoded.
type exploding struct{}

// MarshalJSON implements json.Marshaler.
func (exploding) MarshalJSON() ([]byte, error) { panic("boom") }

// TestPutJSON_Panic: a panic during encoding becomes an error, and nothing of the file is
// stored.
func TestPutJSON_Panic(t *testing.T) {
	objects := memory.New()
	store := storage.New(objects, "")
	if err := store.Claim(t.Context(), "nightly", storage.Claim{BackupUID: "u-1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutJSON(t.Context(), "nightly", "u-1", storage.Results, exploding{}); !errors.As(err, new(*panics.Error)) {
		t.Errorf("the error is %v", err)
	}
	if _, err := objects.Get(t.Context(), "backups/nightly/nightly-results.gz"); !errors.Is(err, objectstore.ErrNotExist) {
		t.Errorf("a part of the file is stored: %v", err)
	}
}
