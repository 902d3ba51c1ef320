// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// TestToStoreError covers what cannot be provoked in a temporary directory.
func TestToStoreError(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want error
	}{
		"disk full":       {&fs.PathError{Op: "write", Path: "/where/it/lies", Err: syscall.ENOSPC}, objectstore.ErrNoSpace},
		"quota":           {&fs.PathError{Op: "write", Path: "/where/it/lies", Err: syscall.EDQUOT}, objectstore.ErrNoSpace},
		"read-only":       {&fs.PathError{Op: "openat", Path: "/where/it/lies", Err: syscall.EROFS}, objectstore.ErrReadOnly},
		"no permission":   {&os.LinkError{Op: "rename", Old: "/where/it/lies", New: "x", Err: syscall.EACCES}, objectstore.ErrAccess},
		"input/output":    {&fs.PathError{Op: "fsync", Path: "/where/it/lies", Err: syscall.EIO}, objectstore.ErrUnavailable},
		"stale handle":    {&fs.PathError{Op: "read", Path: "/where/it/lies", Err: syscall.ESTALE}, objectstore.ErrUnavailable},
		"exists":          {&os.LinkError{Op: "link", Old: "/where/it/lies", New: "x", Err: syscall.EEXIST}, objectstore.ErrExists},
		"does not exist":  {&fs.PathError{Op: "openat", Path: "/where/it/lies", Err: syscall.ENOENT}, objectstore.ErrNotExist},
		"file too large":  {&fs.PathError{Op: "write", Path: "/where/it/lies", Err: syscall.EFBIG}, objectstore.ErrTooLarge},
		"store's own":     {&objectstore.Error{Op: "putting", Key: "key", Kind: objectstore.ErrExists}, objectstore.ErrExists},
		"too many opened": {&fs.PathError{Op: "openat", Path: "/where/it/lies", Err: syscall.EMFILE}, objectstore.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := toStoreError("putting", "key", tc.err)
			if !errors.Is(got, tc.want) {
				t.Errorf("error %v, want %v", got, tc.want)
			}
			if strings.Contains(got.Error(), "/where") || !strings.Contains(got.Error(), `"key"`) {
				t.Errorf("the message shows a path, or not the key: %v", got)
			}
		})
	}
}
