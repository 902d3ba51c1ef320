// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
)

// flight is a store in which a Put of one key is in progress: all of its content was sent,
// and it takes effect when land is closed.
type flight struct {
	objectstore.Store
	key        string
	sent, land chan struct{}
	once       sync.Once
}

func inFlight(store objectstore.Store, key string) *flight {
	return &flight{Store: store, key: key, sent: make(chan struct{}), land: make(chan struct{})}
}

func (f *flight) Put(ctx context.Context, key string, r io.Reader, opts objectstore.PutOptions) (objectstore.Info, error) {
	if !strings.HasSuffix(key, f.key) {
		return f.Store.Put(ctx, key, r, opts)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		return objectstore.Info{}, err
	}
	f.once.Do(func() { close(f.sent) })
	<-f.land
	return f.Store.Put(ctx, key, bytes.NewReader(content), opts)
}

// during runs the first attempt in the store until it hangs in the Put of key, then do, and
// then the rest of the first attempt, whose error it returns.
func during(t *testing.T, store objectstore.Store, key string, do func(*storage.Store)) error {
	t.Helper()
	old := inFlight(store, key)
	done := make(chan error, 1)
	go func() { done <- runBackup(t.Context(), storage.New(old, ""), "nightly", "uid-1", "first") }()
	<-old.sent
	do(storage.New(store, ""))
	close(old.land)
	return <-done
}

// TestAttempt_LateWriteAfterCommit lets each file of a process that lost its lease arrive after its
// successor has committed: the backup stays as committed.
func TestAttempt_LateWriteAfterCommit(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"nightly.tar.gz", "nightly-results.gz", "nightly-logs.gz", "nightly-grapnel.json", "velero-backup.json"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			store := memory.New()
			err := during(t, store, key, func(s *storage.Store) {
				if err := runBackup(t.Context(), s, "nightly", "uid-1", "second"); err != nil {
					t.Errorf("the second attempt: %v", err)
				}
			})
			if !errors.Is(err, storage.ErrSuperseded) {
				t.Errorf("the first attempt: error %v, want ErrSuperseded", err)
			}
			wantOneBackup(t, storage.New(store, ""))
		})
	}
}

// TestAttempt_LateWriteBeforeCommit lets the archive of a process that lost its lease arrive while
// its successor works. In each kind of store the successor detects it, and has to start
// over.
func TestAttempt_LateWriteBeforeCommit(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"put if absent", "no put if absent", "no metadata"} {
		for _, before := range []string{"nightly.tar.gz", "nightly-results.gz", "velero-backup.json"} {
			t.Run(name+" before "+before, func(t *testing.T) {
				t.Parallel()
				store := fresh(name)
				s := storage.New(store, "")
				if err := s.Claim(t.Context(), "nightly", claimOf("uid-1")); err != nil {
					t.Fatal(err)
				}
				between := &beforePut{Store: store, key: before, do: func() {
					putRaw(t, store, "backups/nightly/nightly.tar.gz", "archive of another")
				}}
				err := runBackup(t.Context(), storage.New(between, ""), "nightly", "uid-1", "first")
				// Without put-if-absent, the successor replaces the late write if that was
				// earlier.
				if before == "nightly.tar.gz" && name != "put if absent" && err == nil {
					wantOneBackup(t, s)
					return
				}
				if !errors.Is(err, storage.ErrOverwritten) && !isCorruptError(err) {
					t.Errorf("error %v, want ErrOverwritten", err)
				}
				if got := backups(t, s); len(got) > 0 {
					t.Errorf("there is a backup: %v", got)
				}
				if err := runBackup(t.Context(), s, "nightly", "uid-1", "second"); err != nil {
					t.Error(err)
				}
				wantOneBackup(t, s)
			})
		}
	}
}

func fresh(name string) objectstore.Store {
	switch name {
	case "put if absent":
		return memory.New()
	case "no put if absent":
		return memory.New(memory.WithoutPutIfAbsent())
	}
	return memory.New(memory.WithoutMetadata(), memory.WithoutPutIfAbsent())
}

// TestEndAttempts_LateWrite: a step that continues after its run finished stores no backup.
func TestEndAttempts_LateWrite(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"nightly.tar.gz", "nightly-results.gz", "nightly-grapnel.json", "velero-backup.json"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			store := memory.New()
			err := during(t, store, key, func(s *storage.Store) {
				if err := errors.Join(s.EndAttempts(t.Context(), "nightly", "uid-1"),
					s.Discard(t.Context(), "nightly", "uid-1"), s.Release(t.Context(), "nightly", "uid-1")); err != nil {
					t.Error(err)
				}
			})
			if !errors.Is(err, storage.ErrNotClaimed) {
				t.Errorf("the late attempt: error %v, want ErrNotClaimed", err)
			}
			s := storage.New(store, "")
			if got := backups(t, s); len(got) > 0 {
				t.Errorf("there is a backup: %v", got)
			}
			if _, err := s.BeginAttempt(t.Context(), "nightly", "uid-1"); !errors.Is(err, storage.ErrNotClaimed) {
				t.Errorf("another attempt: error %v, want ErrNotClaimed", err)
			}
			if err := runBackup(t.Context(), s, "nightly", "uid-2", "second"); err != nil {
				t.Errorf("the next backup of that name: %v", err)
			}
			wantOneBackup(t, s)
		})
	}
}

// TestEndAttempts_CompleteBackup removes a complete backup, if the run has another outcome.
func TestEndAttempts_CompleteBackup(t *testing.T) {
	t.Parallel()
	s := storage.New(memory.New(), "")
	mustRun(t, s, "nightly", "uid-1")
	if err := s.EndAttempts(t.Context(), "nightly", "uid-2"); !isTaken(err) {
		t.Errorf("by another: error %v, want a TakenError", err)
	}
	if err := s.EndAttempts(t.Context(), "nightly", "uid-1"); err != nil || len(backups(t, s)) > 0 {
		t.Errorf("error %v, backups %v", err, backups(t, s))
	}
}

// TestBeginAttempt_AlreadyCommitted: an attempt that begins after another one has
// committed does not change that backup, even if the commit was not observed.
func TestBeginAttempt_AlreadyCommitted(t *testing.T) {
	t.Parallel()
	store := memory.New()
	s := storage.New(store, "")
	mustRun(t, s, "nightly", "uid-1")
	counted := storetest.NewFaultyStore(store)
	if _, err := storage.New(counted, "").BeginAttempt(t.Context(), "nightly", "uid-1"); !errors.Is(err, storage.ErrCommitted) {
		t.Errorf("error %v, want ErrCommitted", err)
	}
	if n := counted.CountCalls(storetest.MethodGet, "*.tar.gz"); n > 0 {
		t.Error("the archive was read, although nothing indicates a change")
	}
	// The manifest stays, and the archive is replaced.
	putRaw(t, store, "backups/nightly/nightly.tar.gz", "ARCHIVE of run of uid-1")
	if done, err := s.IsCommitted(t.Context(), "nightly", "uid-1"); done || err != nil {
		t.Errorf("Committed: %v, %v", done, err)
	}
	if err := runBackup(t.Context(), s, "nightly", "uid-1", "second"); err != nil {
		t.Fatal(err)
	}
	wantOneBackup(t, s)
}

// TestBeginAttempt_OldClaims leaves only a few claims.
func TestBeginAttempt_OldClaims(t *testing.T) {
	t.Parallel()
	store := memory.New()
	s := storage.New(store, "")
	if err := s.Claim(t.Context(), "nightly", claimOf("uid-1")); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		if _, err := s.BeginAttempt(t.Context(), "nightly", "uid-1"); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(keys(t, store)); n > 10 {
		t.Errorf("%d claims are left", n)
	}
	if err := runBackup(t.Context(), s, "nightly", "uid-1", "second"); err != nil {
		t.Error(err)
	}
	wantOneBackup(t, s)
}

// late is a store of one process, whose requests take some time.
type late struct {
	objectstore.Store
	rng *rand.Rand
}

func (l *late) pause() { time.Sleep(time.Duration(l.rng.IntN(1000)) * time.Millisecond) }

// Put sends its content, and takes effect later.
func (l *late) Put(ctx context.Context, key string, r io.Reader, opts objectstore.PutOptions) (objectstore.Info, error) {
	content, err := io.ReadAll(r)
	if err != nil {
		return objectstore.Info{}, err
	}
	l.pause()
	info, err := l.Store.Put(ctx, key, bytes.NewReader(content), opts)
	l.pause()
	return info, err
}

// List returns the state after a pause. What follows without a pause happens at the same
// moment: no process is paused between a check and the removal that depends on it.
func (l *late) List(ctx context.Context, opts objectstore.ListOptions) iter.Seq2[objectstore.Entry, error] {
	l.pause()
	return l.Store.List(ctx, opts)
}

// TestAttempt_Concurrent runs several attempts at once, at random speeds, some of which
// end in the middle or end the run. A process to which the backup is reported as complete
// must find it as committed when all have ended.
func TestAttempt_Concurrent(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) { raceOnce(t, seed) })
		if t.Failed() {
			return
		}
	}
}

func raceOnce(t *testing.T, seed uint64) {
	t.Helper()
	const processes = 3
	store := memory.New()
	if err := storage.New(store, "").Claim(t.Context(), "nightly", claimOf("uid-1")); err != nil {
		t.Fatal(err)
	}
	gaveUp := false
	errs := make([]error, processes)
	var all sync.WaitGroup
	for i := range processes {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		begin, end := time.Duration(rng.IntN(20))*time.Second, time.Duration(rng.IntN(60))*time.Second
		giveUp := rng.IntN(6) == 0
		gaveUp = gaveUp || giveUp
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), begin+end)
			defer cancel()
			time.Sleep(begin)
			s := storage.New(&late{Store: store, rng: rng}, "")
			if giveUp {
				errs[i] = errors.Join(errors.New("ended the run"), s.EndAttempts(ctx, "nightly", "uid-1"))
				return
			}
			for errs[i] = storage.ErrOverwritten; errors.Is(errs[i], storage.ErrOverwritten); {
				errs[i] = runBackup(ctx, s, "nightly", "uid-1", fmt.Sprint("attempt ", i))
			}
		})
	}
	all.Wait()
	s := storage.New(store, "")
	for i, err := range errs {
		if err != nil || gaveUp {
			continue
		}
		if err := s.Verify(t.Context(), "nightly"); err != nil {
			t.Errorf("seed %d: process %d got a complete backup: %v (all: %v)", seed, i, err, errs)
		}
	}
	if len(backups(t, s)) > 0 {
		return
	}
	if err := runBackup(t.Context(), s, "nightly", "uid-1", "the last"); err != nil || s.Verify(t.Context(), "nightly") != nil {
		t.Errorf("seed %d: no process can continue: %v", seed, err)
	}
}

// otherETags is a store that returns ETags in another form in a list, and in a Stat if stat
// is set.
type otherETags struct {
	*storetest.FaultyStore
	stat bool
}

func (o otherETags) List(ctx context.Context, opts objectstore.ListOptions) iter.Seq2[objectstore.Entry, error] {
	return func(yield func(objectstore.Entry, error) bool) {
		for entry, err := range o.FaultyStore.List(ctx, opts) {
			entry.ETag = "W/" + entry.ETag
			if !yield(entry, err) {
				return
			}
		}
	}
}

func (o otherETags) Stat(ctx context.Context, key string) (objectstore.Info, error) {
	info, err := o.FaultyStore.Stat(ctx, key)
	if o.stat {
		info.ETag = "W/" + info.ETag
	}
	return info, err
}

// TestCommit_ETagForms: several forms of an ETag neither make a backup look like another
// one nor, where avoidable, cause a read of its archive. A replacement of the same size is
// detected.
func TestCommit_ETagForms(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		stat  bool
		reads int
	}{
		"in a list":            {},
		"in a list and a Stat": {stat: true, reads: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := otherETags{FaultyStore: storetest.NewFaultyStore(memory.New()), stat: tc.stat}
			s := storage.New(objects, prefix)
			const archive = "*nightly.tar.gz"
			if err := runBackup(t.Context(), s, "nightly", "uid-1", "first"); err != nil {
				t.Fatal(err)
			}
			if n := objects.CountCalls(storetest.MethodGet, archive); n != tc.reads {
				t.Errorf("Commit read the archive %d times, want %d", n, tc.reads)
			}
			if ok, err := s.IsCommitted(t.Context(), "nightly", "uid-1"); !ok || err != nil {
				t.Errorf("Committed: %t, %v", ok, err)
			}
			if n := objects.CountCalls(storetest.MethodGet, archive); n != 2*tc.reads {
				t.Errorf("with IsCommitted the archive was read %d times, want %d", n, 2*tc.reads)
			}
			key := prefix + "/backups/nightly/nightly.tar.gz"
			if _, err := objects.Stat(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			if _, err := objects.Put(t.Context(), key, strings.NewReader("archive of OTHER"), objectstore.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			if ok, err := s.IsCommitted(t.Context(), "nightly", "uid-1"); ok || err != nil {
				t.Errorf("IsCommitted of a replaced archive: %t, %v", ok, err)
			}
		})
	}
}
