// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupstore_test

import (
	"errors"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/panics"
)

// exploding is a value that panics when it is encoded.
type exploding struct{}

// MarshalJSON implements json.Marshaler.
func (exploding) MarshalJSON() ([]byte, error) { panic("boom") }

// TestPutJSON_Panic: a panic during encoding becomes an error, and nothing of the file is
// stored.
func TestPutJSON_Panic(t *testing.T) {
	objects := memory.New()
	store := backupstore.New(objects, "")
	if err := store.Claim(t.Context(), "nightly", backupstore.Claim{BackupUID: "u-1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutJSON(t.Context(), "nightly", "u-1", backupstore.Results, exploding{}); !errors.As(err, new(*panics.Error)) {
		t.Errorf("the error is %v", err)
	}
	if _, err := objects.Get(t.Context(), "backups/nightly/nightly-results.gz"); !errors.Is(err, objectstore.ErrNotExist) {
		t.Errorf("a part of the file is stored: %v", err)
	}
}
