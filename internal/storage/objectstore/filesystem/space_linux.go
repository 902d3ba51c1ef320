// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

var _ objectstore.SpaceReporter = (*Store)(nil)

// Space implements objectstore.SpaceReporter. Space reserved for root does not count as
// free. A quota of a user or project is visible only if the file system reports it, as XFS
// and NFS do.
func (s *Store) Space(ctx context.Context) (objectstore.Space, error) {
	if err := ctx.Err(); err != nil {
		return objectstore.Space{}, err
	}
	dir, err := s.root.Open(".")
	if err != nil {
		return objectstore.Space{}, fmt.Errorf("reading the free space: %w", withoutPaths(err))
	}
	defer func() { _ = dir.Close() }() // it was opened only for reading
	var stat unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &stat); err != nil {
		return objectstore.Space{}, fmt.Errorf("reading the free space: %w", err)
	}
	block := uint64(stat.Frsize) //nolint:gosec // never negative
	if block == 0 {
		block = uint64(stat.Bsize) //nolint:gosec // never negative
	}
	return objectstore.Space{Total: stat.Blocks * block, Free: stat.Bavail * block}, nil
}
