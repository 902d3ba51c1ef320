// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

//nolint:thelper // The functions handed to forEachCrash are tests: a failure belongs to the line in them.
package storage_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
)

// forEachCrash runs do against a store that dies at each of its calls in turn, before the
// call takes effect and after, and passes the resulting store to check.
func forEachCrash(t *testing.T, prepare, do func(*storage.Store) error, check func(*testing.T, objectstore.Store)) {
	t.Helper()
	fresh := func() objectstore.Store {
		store := memory.New()
		if err := prepare(storage.New(store, "")); err != nil {
			t.Fatal(err)
		}
		return store
	}
	golden := storetest.NewFaultyStore(fresh())
	if err := do(storage.New(golden, "")); err != nil {
		t.Fatal(err)
	}
	calls := len(golden.Calls())
	if calls < 3 {
		t.Fatalf("only %d calls to crash at", calls)
	}
	for k := 1; k <= calls; k++ {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("call %d late %v", k, late), func(t *testing.T) {
				store := fresh()
				faulty := storetest.NewFaultyStore(store)
				if late {
					faulty.CrashAfter(k, true)
				} else {
					faulty.CrashAfter(k-1, false)
				}
				if err := do(storage.New(faulty, "")); !errors.Is(err, storetest.ErrCrashed) {
					t.Errorf("error %v, want ErrCrashed", err)
				}
				check(t, store)
			})
		}
	}
}

func nothing(*storage.Store) error { return nil }

// TestAttempt_Crash: wherever a run is interrupted, the result is no backup or a valid
// one, another UID gets the name only if it was never claimed, and the same UID can finish.
func TestAttempt_Crash(t *testing.T) {
	t.Parallel()
	first := func(s *storage.Store) error { return runBackup(t.Context(), s, "nightly", "uid-1", "first") }
	forEachCrash(t, nothing, first, func(t *testing.T, store objectstore.Store) {
		s := storage.New(store, "")
		left := keys(t, store)
		if len(backups(t, s)) > 0 {
			if err := s.Verify(t.Context(), "nightly"); err != nil {
				t.Errorf("after the crash: %v", err)
			}
		}
		if len(left) > 0 {
			if err := runBackup(t.Context(), s, "nightly", "uid-2", "intruder"); !isTaken(err) {
				t.Errorf("another UID after the crash: error %v, want a TakenError", err)
			}
			if diff := cmp.Diff(left, keys(t, store)); diff != "" {
				t.Errorf("another UID wrote something (-before +after):\n%s", diff)
			}
		}
		if err := runBackup(t.Context(), s, "nightly", "uid-1", "second"); err != nil {
			t.Fatalf("continuing: %v", err)
		}
		wantOneBackup(t, s)
	})
}

// wantOneBackup also checks that all parts belong to one attempt.
func wantOneBackup(t *testing.T, s *storage.Store) {
	t.Helper()
	if diff := cmp.Diff([]string{"nightly"}, backups(t, s)); diff != "" {
		t.Errorf("backups (-want +got):\n%s", diff)
	}
	if err := s.Verify(t.Context(), "nightly"); err != nil {
		t.Error(err)
	}
	velero, _, err := s.ReadManifest(t.Context(), "nightly")
	if err != nil {
		t.Fatal(err)
	}
	attempt := "second"
	if strings.Contains(string(velero), `"first"`) {
		attempt = "first"
	}
	if got := read(t, s, "nightly", storage.Contents); got != "archive of "+attempt {
		t.Errorf("the manifest belongs to attempt %s, the archive is %q", attempt, got)
	}
}

// TestDeleteOwned_Crash: a partly deleted backup is never listed, and the deletion can
// continue from any point.
func TestDeleteOwned_Crash(t *testing.T) {
	t.Parallel()
	prepare := func(s *storage.Store) error {
		err := errors.Join(
			s.Claim(t.Context(), "nightly", claimOf("uid-0")), s.Release(t.Context(), "nightly", "uid-0"),
			runBackup(t.Context(), s, "nightly", "uid-1", "first"))
		return err
	}
	del := func(s *storage.Store) error { return s.DeleteOwned(t.Context(), "nightly", "uid-1") }
	forEachCrash(t, prepare, del, func(t *testing.T, store objectstore.Store) {
		s := storage.New(store, "")
		if len(backups(t, s)) > 0 {
			if err := s.Verify(t.Context(), "nightly"); err != nil {
				t.Errorf("a backup that is being deleted looks usable: %v", err)
			}
		}
		if err := del(s); err != nil {
			t.Errorf("deleting again: %v", err)
		}
		wantKeys(t, store)
		if err := runBackup(t.Context(), s, "nightly", "uid-2", "second"); err != nil {
			t.Errorf("using the name again: %v", err)
		}
	})
}

// TestDiscard_Crash: discarding and releasing can be retried, and release the
// name.
func TestDiscard_Crash(t *testing.T) {
	t.Parallel()
	prepare := func(s *storage.Store) error {
		err := s.Claim(t.Context(), "nightly", claimOf("uid-1"))
		_, contentsErr := putContents(t.Context(), s, "nightly", "uid-1", strings.NewReader("archive"))
		_, logErr := s.PutFile(t.Context(), "nightly", "uid-1", storage.Logs, strings.NewReader("log"))
		_, infoErr := s.PutFile(t.Context(), "nightly", "uid-1", storage.VolumeInfo, strings.NewReader("x"))
		return errors.Join(err, contentsErr, logErr, infoErr)
	}
	end := func(s *storage.Store) error {
		if err := s.Discard(t.Context(), "nightly", "uid-1"); err != nil {
			return err
		}
		return s.Release(t.Context(), "nightly", "uid-1")
	}
	forEachCrash(t, prepare, end, func(t *testing.T, store objectstore.Store) {
		s := storage.New(store, "")
		if err := end(s); err != nil {
			t.Errorf("ending again: %v", err)
		}
		wantKeys(t, store, "backups/nightly/nightly-claim-2.json", "backups/nightly/nightly-claim.json", "backups/nightly/nightly-logs.gz")
		if _, err := s.PutFile(t.Context(), "nightly", "uid-1", storage.PostLogs, strings.NewReader("post")); err != nil {
			t.Errorf("storing the log of post actions of a failed run: %v", err)
		}
		if err := runBackup(t.Context(), s, "nightly", "uid-2", "second"); err != nil {
			t.Errorf("the next: %v", err)
		}
		wantOneBackup(t, s)
	})
}

// TestDelete_Calls counts the calls of a deletion, and checks that the manifest is
// removed first and the claim last.
func TestDelete_Calls(t *testing.T) {
	t.Parallel()
	store := memory.New()
	mustRun(t, storage.New(store, ""), "nightly", "uid-1")
	counted := storetest.NewFaultyStore(store)
	if err := storage.New(counted, "").Delete(t.Context(), "nightly"); err != nil {
		t.Fatal(err)
	}
	calls := counted.Calls()
	if len(calls) > 5 {
		t.Errorf("%d calls: %v", len(calls), calls)
	}
	if calls[0].Method != storetest.MethodDelete || calls[0].Key != "backups/nightly/velero-backup.json" {
		t.Errorf("the first call is %v", calls[0])
	}
	if last := calls[len(calls)-1]; last.Key != "backups/nightly/nightly-claim-2.json backups/nightly/nightly-claim.json" {
		t.Errorf("the last call is %v", last)
	}
}

// TestDeleteOwned_Calls: the deletion of an own backup costs four calls in
// addition to those for the manifests, independent of the number of files.
func TestDeleteOwned_Calls(t *testing.T) {
	t.Parallel()
	store := memory.New()
	mustRun(t, storage.New(store, ""), "nightly", "uid-1")
	for i := range 40 {
		putRaw(t, store, fmt.Sprintf("backups/nightly/more-%d", i), "x")
	}
	counted := storetest.NewFaultyStore(store)
	s := storage.New(counted, "")
	if there, err := s.IsOwnedBy(t.Context(), "nightly", "uid-1"); err != nil || !there {
		t.Errorf("IsOwnedBy: %v, %v, want true", there, err)
	}
	if err := s.DeleteOwned(t.Context(), "nightly", "uid-1"); err != nil {
		t.Fatal(err)
	}
	others := 0
	for _, call := range counted.Calls() {
		if !strings.HasSuffix(call.Key, "/velero-backup.json") && !strings.HasSuffix(call.Key, "/nightly-grapnel.json") {
			others++
		}
	}
	if others > 4 {
		t.Errorf("%d calls: %v", others, counted.Calls())
	}
	wantKeys(t, store)
	if there, err := s.IsOwnedBy(t.Context(), "nightly", "uid-1"); err != nil || there {
		t.Errorf("IsOwnedBy afterwards: %v, %v, want false", there, err)
	}
}

// TestDeleteOwned_DamagedBackup: if the manifest is damaged, the claim decides, and if that
// is damaged too, only Delete removes anything.
func TestDeleteOwned_DamagedBackup(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file   string
		claim  string
		uid    string
		wanted func(error) bool
	}{
		"own claim":       {file: "nightly-grapnel.json", uid: "uid-1", wanted: func(err error) bool { return err == nil }},
		"another's claim": {file: "nightly-grapnel.json", uid: "uid-2", wanted: isTaken},
		"damaged claim":   {file: "nightly-grapnel.json", uid: "uid-1", claim: "nonsense", wanted: isCorruptError},
		"Velero's half":   {uid: "uid-1", file: "velero-backup.json", wanted: func(err error) bool { return err == nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := memory.New()
			s := storage.New(store, "")
			mustRun(t, s, "nightly", "uid-1")
			putRaw(t, store, "backups/nightly/"+tc.file, "nonsense")
			if tc.claim != "" {
				putRaw(t, store, "backups/nightly/nightly-claim-2.json", tc.claim)
				putRaw(t, store, "backups/nightly/nightly-claim.json", tc.claim)
			}
			before := keys(t, store)
			err := s.DeleteOwned(t.Context(), "nightly", tc.uid)
			if !tc.wanted(err) {
				t.Errorf("error %v", err)
			}
			if err == nil {
				before = nil
			}
			wantKeys(t, store, before...)
		})
	}
}

// TestCommit_Interleaved lets a process that lost its lease, and has not noticed that
// yet, commit between the two writes of its successor's commit. Each has then written one
// of the manifests. They must not be taken for a backup, and the successor corrects them.
func TestCommit_Interleaved(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(*testing.T, objectstore.Store, error) error{
		"successor continues": func(_ *testing.T, _ objectstore.Store, err error) error { return err },
		"successor dies and the next starts over": func(t *testing.T, store objectstore.Store, _ error) error {
			s := storage.New(store, "")
			if _, _, err := s.ReadManifest(t.Context(), "nightly"); !isCorruptError(err) {
				t.Errorf("manifests that do not belong together: error %v, want a CorruptError", err)
			}
			if err := runBackup(t.Context(), s, "nightly", "uid-2", "intruder"); err == nil {
				t.Error("another UID could use the name")
			}
			return runBackup(t.Context(), s, "nightly", "uid-1", "second")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := memory.New()
			started, release := make(chan struct{}), make(chan struct{})
			old := storetest.NewFaultyStore(store, storetest.Fault{Method: storetest.MethodPut, Key: "*/velero-backup.json", Started: started, Release: release})
			oldDone := make(chan error, 1)
			go func() { oldDone <- runBackup(t.Context(), storage.New(old, ""), "nightly", "uid-1", "first") }()
			<-started // the old process wrote its -grapnel.json and hangs

			successor := storetest.NewFaultyStore(store)
			between := &beforePut{Store: successor, key: "velero-backup.json", do: func() {
				close(release)
				if err := <-oldDone; !errors.Is(err, storage.ErrSuperseded) {
					t.Errorf("the old process: error %v, want ErrSuperseded", err)
				}
				if strings.Contains(name, "dies") {
					successor.CrashAfter(0, false)
				}
			}}
			err := runBackup(t.Context(), storage.New(between, ""), "nightly", "uid-1", "second")
			if err := next(t, store, err); err != nil {
				t.Fatal(err)
			}
			wantOneBackup(t, storage.New(store, ""))
		})
	}
}

// TestCommit_VeleroManifest: Velero does not use claims.
func TestCommit_VeleroManifest(t *testing.T) {
	t.Parallel()
	store := memory.New()
	between := &beforePut{Store: store, key: "velero-backup.json", do: func() {
		putRaw(t, store, "backups/nightly/velero-backup.json", `{"kind":"Backup","metadata":{"uid":"theirs"}}`)
	}}
	if err := runBackup(t.Context(), storage.New(between, ""), "nightly", "uid-1", "first"); !isTaken(err) {
		t.Errorf("error %v, want a TakenError", err)
	}
	velero, grapnel, err := storage.New(store, "").ReadManifest(t.Context(), "nightly")
	if err != nil || grapnel != nil || !strings.Contains(string(velero), "theirs") {
		t.Errorf("Velero's backup reads as %s, %v, %v", velero, grapnel, err)
	}
}
