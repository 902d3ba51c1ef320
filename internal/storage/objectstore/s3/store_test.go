// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/s3"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
	"github.com/grapnel-dev/grapnel/internal/testing/s3server"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t, s3server.Options{})
	s := open(t, server.S3Options())
	storetest.RunConformance(t, func() objectstore.Store { return emptied(t, s) })
}

func TestConformance_IgnoredConditions(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t, s3server.Options{IgnoreConditions: true})
	s := open(t, server.S3Options())
	storetest.RunConformance(t, func() objectstore.Store { return emptied(t, s) })
	if s.Capabilities().PutIfAbsent {
		t.Error("the store claims put-if-absent on a server that ignores conditions")
	}
}

// TestList_Pages lists more objects than a server returns at once.
func TestList_Pages(t *testing.T) {
	t.Parallel()
	s := open(t, s3server.Start(t, s3server.Options{}).S3Options())
	const objects = 1010
	for i := range objects {
		if _, err := s.Put(t.Context(), fmt.Sprintf("backups/b-%04d/velero-backup.json", i), strings.NewReader("x"), objectstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	next := 0
	for e, err := range s.List(t.Context(), objectstore.ListOptions{Prefix: "backups/"}) {
		if want := fmt.Sprintf("backups/b-%04d/velero-backup.json", next); err != nil || e.Key != want {
			t.Fatalf("after %d objects there is %q, %v, want %q", next, e.Key, err, want)
		}
		next++
	}
	if next != objects {
		t.Errorf("%d objects are listed, want %d", next, objects)
	}
}

func TestStore_AccessErrors(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t, s3server.Options{})
	for name, tc := range map[string]struct {
		change func(*s3.Options)
		want   error
	}{
		"wrong access key": {func(o *s3.Options) { o.Credentials.AccessKeyID = "unknown" }, objectstore.ErrAccess},
		"wrong secret key": {func(o *s3.Options) { o.Credentials.SecretAccessKey = "s3cr3t-wrong" }, objectstore.ErrAccess},
		"missing bucket":   {func(o *s3.Options) { o.Bucket = "missing" }, objectstore.ErrNoStore},
		"connection refused": {func(o *s3.Options) {
			o.Endpoint, o.MaxRetries = "http://127.0.0.1:1", 2
		}, objectstore.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := server.S3Options()
			tc.change(&opts)
			s := open(t, opts)
			_, putErr := s.Put(t.Context(), "key", strings.NewReader("x"), objectstore.PutOptions{})
			var listErr error
			for _, err := range s.List(t.Context(), objectstore.ListOptions{}) {
				listErr = err
			}
			for op, err := range map[string]error{"Put": putErr, "List": listErr} {
				if !errors.Is(err, tc.want) {
					t.Errorf("%s: error %v, want %v", op, err, tc.want)
				}
				for _, secret := range []string{opts.Credentials.SecretAccessKey, opts.Credentials.AccessKeyID} {
					if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, opts), secret) {
						t.Errorf("%s: a credential shows in %v", op, err)
					}
				}
			}
		})
	}
}

func open(t *testing.T, opts s3.Options) *s3.Store {
	t.Helper()
	s, err := s3.New(opts)
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

// emptied removes everything, so one server can serve all subtests.
func emptied(t *testing.T, s *s3.Store) *s3.Store {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	var keys []string
	for e, err := range s.List(ctx, objectstore.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, e.Key)
	}
	if err := s.Delete(ctx, keys...); err != nil {
		t.Fatal(err)
	}
	return s
}
