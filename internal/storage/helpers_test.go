// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/filesystem"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/s3"
	"github.com/grapnel-dev/grapnel/internal/testing/s3server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const prefix = "some/prefix"

// stores returns constructors for every kind of object store.
func stores() map[string]func(*testing.T) objectstore.Store {
	return map[string]func(*testing.T) objectstore.Store{
		"memory":                       func(*testing.T) objectstore.Store { return memory.New() },
		"memory without put-if-absent": func(*testing.T) objectstore.Store { return memory.New(memory.WithoutPutIfAbsent()) },
		"memory without metadata":      func(*testing.T) objectstore.Store { return memory.New(memory.WithoutMetadata()) },
		"filesystem":                   openFilesystem,
		"s3":                           openS3,
	}
}

func openFilesystem(t *testing.T) objectstore.Store {
	t.Helper()
	s, err := filesystem.Open(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func openS3(t *testing.T) objectstore.Store {
	t.Helper()
	s, err := s3.New(s3server.Start(t, s3server.Options{}).S3Options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func claimOf(uid string) storage.Claim {
	return storage.Claim{
		BackupUID: uid, Cluster: "east", Namespace: "grapnel-system", Name: "nightly",
		Created: time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC),
	}
}

// runBackup writes a whole backup, as an engine does. All of the content contains attempt.
// It returns the first error.
func runBackup(ctx context.Context, s *storage.Store, name, uid, attempt string) error {
	if err := s.Claim(ctx, name, claimOf(uid)); err != nil {
		return err
	}
	a, err := s.BeginAttempt(ctx, name, uid)
	if errors.Is(err, storage.ErrCommitted) {
		return nil
	}
	if err != nil {
		return err
	}
	files := map[storage.File]storage.Digest{}
	if files[storage.Contents], err = a.PutContents(ctx, strings.NewReader("archive of "+attempt)); err != nil {
		return err
	}
	if files[storage.Results], err = a.PutJSON(ctx, storage.Results, map[string]string{"by": attempt}); err != nil {
		return err
	}
	if _, err = a.PutFile(ctx, storage.Logs, strings.NewReader("log of "+attempt)); err != nil {
		return err
	}
	return a.Commit(ctx, manifest(uid, attempt, files))
}

// putContents stores an archive in its own attempt.
func putContents(ctx context.Context, s *storage.Store, name, uid string, r io.Reader) (storage.Digest, error) {
	a, err := s.BeginAttempt(ctx, name, uid)
	if err != nil {
		return storage.Digest{}, err
	}
	return a.PutContents(ctx, r)
}

// commit commits a backup in its own attempt.
func commit(ctx context.Context, s *storage.Store, name string, m storage.Manifest) error {
	a, err := s.BeginAttempt(ctx, name, m.Grapnel.BackupUID)
	if err != nil {
		return err
	}
	return a.Commit(ctx, m)
}

func manifest(uid, attempt string, files map[storage.File]storage.Digest) storage.Manifest {
	return storage.Manifest{
		VeleroBackup: fmt.Appendf(nil, `{"kind":"Backup","metadata":{"uid":%q},"attempt":%q}`, uid, attempt),
		Grapnel: storage.GrapnelManifest{
			BackupUID: uid,
			Files:     files,
			Outputs:   map[string]map[string]string{"quiesce": {"replicas": "3"}},
			Backup:    json.RawMessage(`{"spec":{}}`),
		},
	}
}

// mustRun is runBackup for the setup of a test.
func mustRun(t *testing.T, s *storage.Store, name, uid string) {
	t.Helper()
	if err := runBackup(t.Context(), s, name, uid, "run of "+uid); err != nil {
		t.Fatal(err)
	}
}

func keys(t *testing.T, store objectstore.Store) []string {
	t.Helper()
	var all []string
	for e, err := range store.List(context.WithoutCancel(t.Context()), objectstore.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Key)
	}
	return all
}

func wantKeys(t *testing.T, store objectstore.Store, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, keys(t, store)); diff != "" {
		t.Errorf("stored objects (-want +got):\n%s", diff)
	}
}

func backups(t *testing.T, s *storage.Store) []string {
	t.Helper()
	var all []string
	for name, err := range s.ListNames(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, name)
	}
	return all
}

func read(t *testing.T, s *storage.Store, name string, file storage.File) string {
	t.Helper()
	r, err := s.GetFile(t.Context(), name, file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func putRaw(t *testing.T, store objectstore.Store, key, content string) {
	t.Helper()
	if _, err := store.Put(t.Context(), key, bytes.NewReader([]byte(content)), objectstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

func isTaken(err error) bool {
	var taken *storage.TakenError
	return errors.As(err, &taken)
}

func isCorruptError(err error) bool {
	var corrupt *storage.CorruptError
	return errors.As(err, &corrupt)
}

// beforePut runs a function right before the first Put of a key with the given suffix.
type beforePut struct {
	objectstore.Store
	key  string
	do   func()
	once sync.Once
}

func (b *beforePut) Put(ctx context.Context, key string, r io.Reader, opts objectstore.PutOptions) (objectstore.Info, error) {
	if strings.HasSuffix(key, b.key) {
		b.once.Do(b.do)
	}
	return b.Store.Put(ctx, key, r, opts)
}
