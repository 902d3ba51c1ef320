// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"errors"
	"io"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/panics"
)

func TestPutRestoreFile_Panic(t *testing.T) {
	store := backupstore.New(memory.New(), "")
	err := putRestoreFile(t.Context(), store, "again", backupstore.RestoreResourceList, func(io.Writer) error { panic("boom") })
	if !errors.As(err, new(*panics.Error)) {
		t.Errorf("the error is %v", err)
	}
	if there, err := hasRestoreFile(t.Context(), store, "again", backupstore.RestoreResourceList); err != nil || there {
		t.Errorf("half a file is stored: %v, %v", there, err)
	}
}
