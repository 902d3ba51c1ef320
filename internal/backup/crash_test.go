// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
)

// stable is the content that must be the same regardless of interruptions: everything
// except the log and its digest.
func stable(t *testing.T, objects objectstore.Store) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, key := range files(t, objects) {
		name := strings.TrimPrefix(key, "backups/nightly/")
		switch name {
		case "nightly-logs.gz", "nightly-post-logs.gz":
			all[name] = "a log"
		case "nightly-grapnel.json":
			manifest := decode(t, content(t, objects, name)).(map[string]any)
			digests := manifest["files"].(map[string]any)
			if digests["logs"] == nil {
				t.Error("the log is not part of the backup")
			}
			delete(digests, "logs")
			delete(manifest, "attempt") // a random word
			delete(manifest, "etags")
			all[name] = manifest
		default:
			all[name] = content(t, objects, name)
		}
	}
	return all
}

// everyCrash runs do with a store that dies after each of its calls, before and
// after it takes effect, and then again with a healthy one and a new operator.
func everyCrash(t *testing.T, prepare, do func(j *backup.Runner, store *storage.Store) error, check func(t *testing.T, objects objectstore.Store, crash string)) {
	t.Helper()
	for _, late := range []bool{false, true} {
		crashed := true
		for k := 1; crashed; k++ {
			objects, scratch := memory.New(), t.TempDir()
			if err := prepare(worker(t, scratch, &engine{}), open(objects)); err != nil {
				t.Fatal(err)
			}
			dying := storetest.NewFaultyStore(objects)
			dying.CrashAfter(k, late)
			crashed = errors.Is(do(worker(t, scratch, &engine{}), open(dying)), storetest.ErrCrashed)
			if err := do(worker(t, scratch, &engine{}), open(objects)); err != nil {
				t.Fatalf("crash after %d calls (late %v): the next operator fails: %v", k, late, err)
			}
			check(t, objects, fmt.Sprintf("crash after %d calls (late %v)", k, late))
			if k > 200 {
				t.Fatal("it never ends")
			}
		}
	}
}

func nothing(*backup.Runner, *storage.Store) error { return nil }

func TestArchive_Crashes(t *testing.T) {
	t.Parallel()
	undisturbed := memory.New()
	want, err := archiveBackup(t.Context(), worker(t, t.TempDir(), &engine{}), open(undisturbed))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	everyCrash(t, nothing, func(j *backup.Runner, store *storage.Store) error {
		got, err := archiveBackup(t.Context(), j, store)
		if err == nil && (got.Items != want.Items || got.Phase() != want.Phase() || !got.Completed.Equal(want.Completed)) {
			t.Errorf("the result is %+v, want %+v", got, want)
		}
		return err
	}, func(t *testing.T, objects objectstore.Store, crash string) {
		t.Helper()
		n++
		if diff := cmp.Diff(stable(t, undisturbed), stable(t, objects)); diff != "" {
			t.Errorf("%s: files (-undisturbed +got):\n%s", crash, diff)
		}
		if err := open(objects).Verify(t.Context(), "nightly"); err != nil {
			t.Errorf("%s: %v", crash, err)
		}
	})
	if n < 2*len(complete()) {
		t.Errorf("there were %d crashes, less than files are written", n)
	}
}

func TestAbandon_Crashes(t *testing.T) {
	t.Parallel()
	prepare := func(j *backup.Runner, store *storage.Store) error {
		j.Engine = &engine{fail: func(context.Context) error { return errBroken }}
		if _, err := archiveBackup(t.Context(), j, store); !errors.Is(err, errBroken) {
			return fmt.Errorf("Archive: %w, want the engine's error", err)
		}
		// These are leftovers of a run that got further.
		if _, err := putContents(t.Context(), store, "nightly", "u-1", strings.NewReader("archive")); err != nil {
			return err
		}
		_, err := store.PutJSON(t.Context(), "nightly", "u-1", storage.ResourceList, "list")
		return err
	}
	everyCrash(t, prepare, func(j *backup.Runner, store *storage.Store) error {
		return j.Abandon(t.Context(), store, request(), "the PreBackup action freeze failed")
	}, func(t *testing.T, objects objectstore.Store, crash string) {
		t.Helper()
		wantFiles(t, objects, "nightly-logs.gz", "nightly-results.gz")
		if diff := cmp.Diff(decode(t, `{"warnings":{},"errors":{"velero":["the PreBackup action freeze failed"],"problems":[{"reason":"Failed","message":"the PreBackup action freeze failed"}]}}`),
			decode(t, unzipped(t, objects, "nightly-results.gz"))); diff != "" {
			t.Errorf("%s: results (-want +got):\n%s", crash, diff)
		}
		if log := unzipped(t, objects, "nightly-logs.gz"); !strings.Contains(log, "it broke") {
			t.Errorf("%s: the log is %s", crash, log)
		}
		// The actions after the outcome still log, until another backup takes the name.
		j := worker(t, t.TempDir(), &engine{})
		j.Logs.Logger(runlog.Run{UID: "u-1"}, "post").Info("thawed")
		if stored, err := j.UploadPostActionLog(t.Context(), open(objects), request()); err != nil || !stored {
			t.Errorf("%s: storing the log of the PostBackup actions: %v, %v", crash, stored, err)
		}
		other := request(ownedBy("u-2"))
		if err := j.Claim(t.Context(), open(objects), other); err != nil {
			t.Errorf("%s: the name is not free: %v", crash, err)
		}
		if _, err := j.Archive(t.Context(), open(objects), other); err != nil {
			t.Errorf("%s: the next backup of that name: %v", crash, err)
		}
		if err := j.Abandon(t.Context(), open(objects), request(), "again"); !backup.IsNameTaken(err) {
			t.Errorf("%s: a late repetition harms the next backup: %v", crash, err)
		}
	})
}

func TestUploadPostActionLog_Crashes(t *testing.T) {
	t.Parallel()
	everyCrash(t, func(j *backup.Runner, store *storage.Store) error {
		_, err := archiveBackup(t.Context(), j, store)
		j.Logs.Logger(runlog.Run{UID: "u-1"}, "post").Info("thawed 3 databases")
		return err
	}, func(j *backup.Runner, store *storage.Store) error {
		stored, err := j.UploadPostActionLog(t.Context(), store, request())
		if err == nil && !stored {
			t.Error("nothing was stored")
		}
		return err
	}, func(t *testing.T, objects objectstore.Store, crash string) {
		t.Helper()
		if log := unzipped(t, objects, "nightly-post-logs.gz"); !strings.Contains(log, "thawed 3 databases") {
			t.Errorf("%s: the log is %s", crash, log)
		}
		if err := open(objects).Verify(t.Context(), "nightly"); err != nil {
			t.Errorf("%s: %v", crash, err)
		}
	})
}
