// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"errors"
	"io"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/panics"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
)

func TestPutRestoreFile_Panic(t *testing.T) {
	store := storage.New(memory.New(), "")
	err := putRestoreFile(t.Context(), store, "again", storage.RestoreResourceList, func(io.Writer) error { panic("boom") })
	if !errors.As(err, new(*panics.Error)) {
		t.Errorf("the error is %v", err)
	}
	if there, err := hasRestoreFile(t.Context(), store, "again", storage.RestoreResourceList); err != nil || there {
		t.Errorf("half a file is stored: %v, %v", there, err)
	}
}
