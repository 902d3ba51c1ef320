// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
)

func TestClaim(t *testing.T) {
	t.Parallel()
	type step func(context.Context, *storage.Store) error
	claim := func(uid string) step {
		return func(ctx context.Context, s *storage.Store) error { return s.Claim(ctx, "nightly", claimOf(uid)) }
	}
	release := func(uid string) step {
		return func(ctx context.Context, s *storage.Store) error { return s.Release(ctx, "nightly", uid) }
	}
	run := func(uid string) step {
		return func(ctx context.Context, s *storage.Store) error {
			return runBackup(ctx, s, "nightly", uid, "run of "+uid)
		}
	}
	for name, tc := range map[string]struct {
		before    []step
		uid       string
		wantTaken bool
	}{
		"free":                     {nil, "a", false},
		"claimed by itself":        {[]step{claim("a")}, "a", false},
		"claimed by another":       {[]step{claim("b")}, "a", true},
		"released by another":      {[]step{claim("b"), release("b")}, "a", false},
		"released by itself":       {[]step{claim("a"), release("a")}, "a", false},
		"released by a non-holder": {[]step{claim("b"), release("a")}, "a", true},
		"taken over by another":    {[]step{claim("a"), release("a"), claim("b")}, "a", true},
		"released twice in turn":   {[]step{claim("a"), release("a"), claim("b"), release("b")}, "a", false},
		"released, taken over, released by the first": {
			[]step{claim("a"), release("a"), claim("b"), release("a")}, "a", true,
		},
		"many turns": {[]step{
			claim("a"), release("a"), claim("b"), release("b"), claim("c"), release("c"), claim("d"), release("d"),
			claim("e"), release("e"), claim("f"), release("f"), claim("g"), release("g"), claim("h"), release("h"),
			claim("i"), release("i"), claim("j"), release("j"), claim("k"),
		}, "a", true},
		"finished by itself":            {[]step{run("a")}, "a", false},
		"finished by another":           {[]step{run("b")}, "a", true},
		"finished by another, released": {[]step{run("b"), release("b")}, "a", true},
		"finished after a takeover":     {[]step{claim("b"), release("b"), run("a")}, "a", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := memory.New()
			s := storage.New(store, "")
			for i, do := range tc.before {
				if err := do(t.Context(), s); err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
			}
			before := len(keys(t, store))
			if err := s.CheckClaim(t.Context(), "nightly", tc.uid); isTaken(err) != tc.wantTaken || (err != nil && !tc.wantTaken) {
				t.Errorf("CheckClaim: error %v, want taken: %v", err, tc.wantTaken)
			}
			if after := len(keys(t, store)); after != before {
				t.Error("CheckClaim wrote something")
			}
			if err := s.Claim(t.Context(), "nightly", claimOf(tc.uid)); isTaken(err) != tc.wantTaken || (err != nil && !tc.wantTaken) {
				t.Errorf("Claim: error %v, want taken: %v", err, tc.wantTaken)
			}
		})
	}
}

func TestTakenError(t *testing.T) {
	t.Parallel()
	s := storage.New(memory.New(), "")
	if err := s.Claim(t.Context(), "nightly", claimOf("uid-1")); err != nil {
		t.Fatal(err)
	}
	err := s.Claim(t.Context(), "nightly", claimOf("uid-2"))
	for _, want := range []string{`"nightly"`, "grapnel-system/nightly", "uid-1", "cluster east", "not finished"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not contain %s", err, want)
		}
	}
}

func TestClaim_Damaged(t *testing.T) {
	t.Parallel()
	store := memory.New()
	putRaw(t, store, "backups/nightly/nightly-claim.json", "{")
	s := storage.New(store, "")
	if err := s.Claim(t.Context(), "nightly", claimOf("uid-1")); !isCorruptError(err) {
		t.Errorf("error %v, want a CorruptError", err)
	}
}

// TestClaim_Concurrent runs a backup of one name in several clusters at once.
func TestClaim_Concurrent(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			if _, err := store.Put(t.Context(), "warm-up", strings.NewReader(""), objectstore.PutOptions{IfAbsent: true}); err != nil {
				t.Fatal(err)
			}
			if !store.Capabilities().PutIfAbsent {
				return // only then is it guaranteed
			}
			s := storage.New(store, "p")
			released := claimOf("uid-released")
			if err := errors.Join(s.Claim(t.Context(), "b", released), s.Release(t.Context(), "b", "uid-released")); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"a", "b"} {
				winner := race(t, s, name)
				if winner == "" {
					t.Errorf("%s: no run succeeded", name)
					continue
				}
				if err := s.Verify(t.Context(), name); err != nil {
					t.Error(err)
				}
				if got, want := read(t, s, name, storage.Contents), "archive of "+winner; got != want {
					t.Errorf("%s: the archive is %q, want %q", name, got, want)
				}
			}
		})
	}
}

// race returns the UID of the only run that succeeded.
func race(t *testing.T, s *storage.Store, name string) string {
	t.Helper()
	const clusters = 8
	errs := make([]error, clusters)
	var wg sync.WaitGroup
	for i := range clusters {
		wg.Go(func() {
			uid := fmt.Sprintf("uid-%d", i)
			errs[i] = runBackup(t.Context(), s, name, uid, uid)
		})
	}
	wg.Wait()
	winner := ""
	for i, err := range errs {
		switch {
		case err == nil && winner == "":
			winner = fmt.Sprintf("uid-%d", i)
		case err == nil:
			t.Errorf("both %s and uid-%d won", winner, i)
		case !isTaken(err):
			t.Errorf("uid-%d: error %v, want a TakenError", i, err)
		}
	}
	return winner
}

// TestClaim_WithoutPutIfAbsent lets two clusters read before either writes, in a store that
// lets both write: the one whose claim was overwritten must detect that.
func TestClaim_WithoutPutIfAbsent(t *testing.T) {
	t.Parallel()
	store := unconditional{memory.New(memory.WithoutPutIfAbsent())}
	claim := func(faulty *storetest.FaultyStore, uid string) <-chan error {
		result := make(chan error, 1)
		go func() { result <- storage.New(faulty, "").Claim(t.Context(), "nightly", claimOf(uid)) }()
		return result
	}
	firstWrote, goOnFirst := make(chan struct{}), make(chan struct{})
	secondLooked, goOnSecond := make(chan struct{}), make(chan struct{})
	second := claim(storetest.NewFaultyStore(store,
		storetest.Fault{Method: storetest.MethodPut, Started: secondLooked, Release: goOnSecond}), "second")
	<-secondLooked
	first := claim(storetest.NewFaultyStore(store,
		storetest.Fault{Method: storetest.MethodList, Nth: 2, Started: firstWrote, Release: goOnFirst}), "first")
	select {
	case <-firstWrote:
	case err := <-first:
		t.Fatalf("the first did not read back what it wrote (error %v)", err)
	}
	close(goOnSecond)
	if err := <-second; err != nil {
		t.Errorf("the second, which wrote last: %v", err)
	}
	close(goOnFirst)
	if err := <-first; !isTaken(err) {
		t.Errorf("the first, whose claim was overwritten: error %v, want a TakenError", err)
	}
	if storage.New(store, "").Capabilities().PutIfAbsent {
		t.Error("Capabilities reports put-if-absent")
	}
}

// unconditional is a store that ignores IfAbsent.
type unconditional struct{ objectstore.Store }

func (s unconditional) Put(ctx context.Context, key string, r io.Reader, _ objectstore.PutOptions) (objectstore.Info, error) {
	return s.Store.Put(ctx, key, r, objectstore.PutOptions{})
}

// TestPutContents_ClaimLost transfers the name during the upload of an archive: the upload
// must not complete.
func TestPutContents_ClaimLost(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			s := storage.New(store, "")
			if err := s.Claim(t.Context(), "nightly", claimOf("old")); err != nil {
				t.Fatal(err)
			}
			r := io.MultiReader(strings.NewReader("archive of the old one"), readerFunc(func() {
				if err := errors.Join(s.Release(t.Context(), "nightly", "old"), s.Claim(t.Context(), "nightly", claimOf("new"))); err != nil {
					t.Error(err)
				}
			}))
			if _, err := putContents(t.Context(), s, "nightly", "old", r); !isTaken(err) {
				t.Errorf("error %v, want a TakenError", err)
			}
			if _, err := s.PutFile(t.Context(), "nightly", "old", storage.Logs, strings.NewReader("x")); !isTaken(err) {
				t.Errorf("PutFile: error %v, want a TakenError", err)
			}
			wantKeys(t, store, "backups/nightly/nightly-claim-2.json", "backups/nightly/nightly-claim-3.json", "backups/nightly/nightly-claim.json")
			if err := s.DeleteOwned(t.Context(), "nightly", "old"); !isTaken(err) {
				t.Errorf("DeleteOwned: error %v, want a TakenError", err)
			}
			if err := runBackup(t.Context(), s, "nightly", "new", "new"); err != nil {
				t.Error(err)
			}
		})
	}
}
