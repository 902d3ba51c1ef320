// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package filesystem_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/filesystem"
)

func TestSpace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := filesystem.Open(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	space, err := store.Space(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var want unix.Statfs_t
	if err := unix.Statfs(dir, &want); err != nil {
		t.Fatal(err)
	}
	if total := want.Blocks * uint64(want.Frsize); space.Total != total || space.Free == 0 || space.Free > total {
		t.Errorf("%+v, want a total of %d and some of it free", space, total)
	}
}
