// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// downloads counts how often the archive is read, and may end reading it early.
type downloads struct {
	objectstore.Store
	archives atomic.Int64
	// during, if set, is called while the archive is read.
	during func()
	cut    int64
}

// Get implements objectstore.Store.
func (d *downloads) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	file, err := d.Store.Get(ctx, key)
	if err != nil || !strings.HasSuffix(key, ".tar.gz") {
		return file, err
	}
	d.archives.Add(1)
	if d.during != nil {
		d.during()
	}
	if d.cut == 0 {
		return file, nil
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(file, d.cut), file}, nil
}

// openScratchFiles returns how many files without a name this process has in a directory.
func openScratchFiles(t *testing.T, dir string) int {
	t.Helper()
	descriptors, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	open := 0
	for _, descriptor := range descriptors {
		if target, err := os.Readlink(descriptor); err == nil && strings.HasPrefix(target, dir) && strings.Contains(target, ".grapnel-scratch-") {
			open++
		}
	}
	return open
}

func TestVerifyArchive(t *testing.T) {
	for name, tc := range map[string]struct {
		// steps are those of one process, in their order.
		steps         []string
		wantDownloads int64
	}{
		"the archive is downloaded once":              {steps: []string{"verify", "restore"}, wantDownloads: 1},
		"another process downloads it again":          {steps: []string{"verify", "crash", "restore"}, wantDownloads: 2},
		"a Restore without actions verifies, too":     {steps: []string{"restore"}, wantDownloads: 1},
		"what is released is downloaded again":        {steps: []string{"verify", "release", "restore"}, wantDownloads: 2},
		"a Restore that is forgotten leaves nothing":  {steps: []string{"verify", "forget"}, wantDownloads: 1},
		"releasing what was restored does no harm":    {steps: []string{"verify", "restore", "release", "forget"}, wantDownloads: 1},
		"a Restore is forgotten while it is verified": {steps: []string{"forget-meanwhile", "verify-canceled"}, wantDownloads: 1},
	} {
		t.Run(name, func(t *testing.T) {
			objects := &downloads{Store: storeWithBackup(t, 0, nil)}
			store, dir := storage.New(objects, ""), t.TempDir()
			j := operator(t, dir, nil)
			for _, step := range tc.steps {
				var err error
				switch step {
				case "verify":
					if err = j.VerifyArchive(t.Context(), store, request); err == nil && openScratchFiles(t, dir) != 1 {
						err = errors.New("the archive was not kept")
					}
				case "verify-canceled":
					if verifyErr := j.VerifyArchive(t.Context(), store, request); !errors.Is(verifyErr, context.Canceled) {
						err = fmt.Errorf("Verify: %w, want %w", verifyErr, context.Canceled)
					}
				case "restore":
					_, err = j.Restore(t.Context(), store, request)
				case "release":
					j.ReleaseArchive(request.UID)
				case "forget":
					j.RemoveLocalFiles(request.UID)
				case "forget-meanwhile":
					objects.during = func() { j.RemoveLocalFiles(request.UID) }
				case "crash":
					j.ReleaseArchive(request.UID) // a file without a name ends with its process
					j = operator(t, dir, nil)
				}
				if err != nil {
					t.Fatalf("%s: %v", step, err)
				}
			}
			if got := objects.archives.Load(); got != tc.wantDownloads {
				t.Errorf("the archive was downloaded %d times, want %d", got, tc.wantDownloads)
			}
			if open := openScratchFiles(t, dir); open != 0 {
				t.Errorf("%d scratch files are open, want none", open)
			}
		})
	}
}

// TestVerifyArchive_Damaged asserts that the error has the cause and a hint.
func TestVerifyArchive_Damaged(t *testing.T) {
	objects := &downloads{Store: storeWithBackup(t, 0, nil), cut: 40}
	dir := t.TempDir()
	err := operator(t, dir, nil).VerifyArchive(t.Context(), storage.New(objects, ""), request)
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "nothing was restored") || !strings.Contains(err.Error(), "restore again") {
		t.Errorf("Verify: %v", err)
	}
	if open := openScratchFiles(t, dir); open != 0 {
		t.Errorf("%d scratch files are open, want none", open)
	}
	none := restore.RunRequest{UID: "u-2", BackupName: "unknown"}
	if err := operator(t, dir, nil).VerifyArchive(t.Context(), storage.New(objects, ""), none); !errors.Is(err, restore.ErrBackupNotFound) {
		t.Errorf("Verify of no backup: %v, want %v", err, restore.ErrBackupNotFound)
	}
}
