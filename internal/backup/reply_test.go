// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
)

// TestArchive_LostReply writes the manifest and loses the reply: the backup exists, and that
// counts.
func TestArchive_LostReply(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]bool{"the connection broke": false, "the run was canceled": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := memory.New()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			store := &afterManifest{Store: objects, do: func() error {
				if stop {
					cancel()
					return ctx.Err()
				}
				return errBroken
			}}
			result, err := archiveBackup(ctx, worker(t, t.TempDir(), &engine{}), open(store))
			if err != nil || result.Items != 3 || result.Bytes == 0 {
				t.Errorf("Archive: %+v, %v; want the result of the backup that is there", result, err)
			}
			if err := open(objects).Verify(t.Context(), "nightly"); err != nil {
				t.Error(err)
			}
		})
	}
}

// slow is a store without ETags that sends an archive slowly.
type slow struct {
	objectstore.Store
	takes time.Duration
}

func (s slow) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if strings.HasSuffix(key, ".tar.gz") {
		select {
		case <-time.After(s.takes):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.Store.Get(ctx, key)
}

func (s slow) List(ctx context.Context, opts objectstore.ListOptions) iter.Seq2[objectstore.Entry, error] {
	return func(yield func(objectstore.Entry, error) bool) {
		for entry, err := range s.Store.List(ctx, opts) {
			entry.ETag = ""
			if !yield(entry, err) {
				return
			}
		}
	}
}

// TestArchive_LostReplySlowStore: the check of the existing backup has no deadline, unless the
// run was ended.
func TestArchive_LostReplySlowStore(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		takes  time.Duration
		stop   bool
		ended  bool // during the check
		want   error
		within time.Duration
	}{
		"the connection broke":                  {takes: 20 * time.Minute, within: 21 * time.Minute},
		"the run was canceled":                  {takes: 20 * time.Second, stop: true, within: 21 * time.Second},
		"the run was canceled, and it is slow":  {takes: time.Hour, stop: true, want: context.Canceled, within: time.Minute},
		"the run is canceled while it looks":    {takes: 5 * time.Minute, ended: true, within: 6 * time.Minute},
		"the run is canceled long before it is": {takes: time.Hour, ended: true, want: errBroken, within: 6 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				store := &afterManifest{Store: slow{Store: memory.New(), takes: tc.takes}, do: func() error {
					if tc.stop {
						cancel()
						return ctx.Err()
					}
					if tc.ended {
						time.AfterFunc(5*time.Minute-time.Second, cancel)
					}
					return errBroken
				}}
				began := time.Now()
				result, err := archiveBackup(ctx, worker(t, t.TempDir(), &engine{}), open(store))
				if !errors.Is(err, tc.want) || (err == nil && result.Items != 3) {
					t.Errorf("Archive: %+v, %v; want error %v", result, err, tc.want)
				}
				if took := time.Since(began); took > tc.within {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}
