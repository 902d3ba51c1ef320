// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package filesystem_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/filesystem"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.RunConformance(t, func() objectstore.Store { return open(t, t.TempDir(), "") })
}

func TestConformance_Subdirectory(t *testing.T) {
	t.Parallel()
	storetest.RunConformance(t, func() objectstore.Store { return open(t, t.TempDir(), "some/dir") })
}

func open(t *testing.T, root, dir string) *filesystem.Store {
	t.Helper()
	s, err := filesystem.Open(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
