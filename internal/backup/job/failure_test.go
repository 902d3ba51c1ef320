// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/backup/job"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/objectstore/storetest"
)

var errBroken = errors.New("it broke")

// archive claims and archives.
func archive(ctx context.Context, j *job.Job, store *backupstore.Store) (job.Result, error) {
	if err := j.Claim(ctx, store, request()); err != nil {
		return job.Result{}, err
	}
	return j.Archive(ctx, store, request())
}

// stable is what has to be the same however often a run was interrupted: all but
// the log and its digest.
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
			all[name] = manifest
		default:
			all[name] = content(t, objects, name)
		}
	}
	return all
}

// everyCrash runs do with a store that dies after each of its calls, before and
// after it takes effect, and then again with a healthy one and a new operator.
func everyCrash(t *testing.T, prepare, do func(j *job.Job, store *backupstore.Store) error, check func(t *testing.T, objects objectstore.Store, crash string)) {
	t.Helper()
	for _, late := range []bool{false, true} {
		crashed := true
		for k := 1; crashed; k++ {
			objects, scratch := memory.New(), t.TempDir()
			if err := prepare(worker(t, scratch, &engine{}), open(objects)); err != nil {
				t.Fatal(err)
			}
			dying := storetest.NewFaulty(objects)
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

func nothing(*job.Job, *backupstore.Store) error { return nil }

func TestArchiveAfterEveryCrash(t *testing.T) {
	t.Parallel()
	undisturbed := memory.New()
	want, err := archive(t.Context(), worker(t, t.TempDir(), &engine{}), open(undisturbed))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	everyCrash(t, nothing, func(j *job.Job, store *backupstore.Store) error {
		got, err := archive(t.Context(), j, store)
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

func TestAbandonAfterEveryCrash(t *testing.T) {
	t.Parallel()
	prepare := func(j *job.Job, store *backupstore.Store) error {
		j.Engine = &engine{fail: func(context.Context) error { return errBroken }}
		if _, err := archive(t.Context(), j, store); !errors.Is(err, errBroken) {
			return fmt.Errorf("Archive: %w, want the engine's error", err)
		}
		// What a run that got further leaves behind.
		if _, err := store.PutContents(t.Context(), "nightly", "u-1", strings.NewReader("archive")); err != nil {
			return err
		}
		_, err := store.PutJSON(t.Context(), "nightly", "u-1", backupstore.ResourceList, "list")
		return err
	}
	everyCrash(t, prepare, func(j *job.Job, store *backupstore.Store) error {
		return j.Abandon(t.Context(), store, request(), "the PreBackup action freeze failed")
	}, func(t *testing.T, objects objectstore.Store, crash string) {
		t.Helper()
		wantFiles(t, objects, "nightly-logs.gz", "nightly-results.gz")
		if diff := cmp.Diff(decode(t, `{"warnings":{},"errors":{"velero":["the PreBackup action freeze failed"]}}`),
			decode(t, unzipped(t, objects, "nightly-results.gz"))); diff != "" {
			t.Errorf("%s: results (-want +got):\n%s", crash, diff)
		}
		if log := unzipped(t, objects, "nightly-logs.gz"); !strings.Contains(log, "it broke") {
			t.Errorf("%s: the log is %s", crash, log)
		}
		// The actions after the outcome still log, until somebody takes the name.
		j := worker(t, t.TempDir(), &engine{})
		j.Logs.Logger("u-1", "post").Info("thawed")
		if stored, err := j.StorePostLog(t.Context(), open(objects), request()); err != nil || !stored {
			t.Errorf("%s: storing the log of the PostBackup actions: %v, %v", crash, stored, err)
		}
		other := request(ownedBy("u-2"))
		if err := j.Claim(t.Context(), open(objects), other); err != nil {
			t.Errorf("%s: the name is not free: %v", crash, err)
		}
		if _, err := j.Archive(t.Context(), open(objects), other); err != nil {
			t.Errorf("%s: the next backup of that name: %v", crash, err)
		}
		if err := j.Abandon(t.Context(), open(objects), request(), "again"); !job.IsTaken(err) {
			t.Errorf("%s: a late repetition harms the next backup: %v", crash, err)
		}
	})
}

// TestAbandonAfterTheLogWasLost has a log all the same: the status names it.
func TestAbandonAfterTheLogWasLost(t *testing.T) {
	t.Parallel()
	objects := memory.New()
	j, store := worker(t, t.TempDir(), &engine{}), open(objects)
	if err := j.Claim(t.Context(), store, request()); err != nil {
		t.Fatal(err)
	}
	if err := j.Abandon(t.Context(), store, request(), "the PreBackup action freeze failed"); err != nil {
		t.Fatal(err)
	}
	if log := unzipped(t, objects, "nightly-logs.gz"); !strings.Contains(log, "the PreBackup action freeze failed") {
		t.Errorf("the log is %s", log)
	}
}

func TestPostLogAfterEveryCrash(t *testing.T) {
	t.Parallel()
	everyCrash(t, func(j *job.Job, store *backupstore.Store) error {
		_, err := archive(t.Context(), j, store)
		j.Logs.Logger("u-1", "post").Info("thawed 3 databases")
		return err
	}, func(j *job.Job, store *backupstore.Store) error {
		stored, err := j.StorePostLog(t.Context(), store, request())
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

func TestNothingLogged(t *testing.T) {
	t.Parallel()
	objects := memory.New()
	store, j := open(objects), worker(t, t.TempDir(), &engine{})
	if _, err := archive(t.Context(), j, store); err != nil {
		t.Fatal(err)
	}
	if stored, err := j.StorePostLog(t.Context(), store, request()); err != nil || stored {
		t.Errorf("StorePostLog: %v, %v; want that there was nothing", stored, err)
	}
	wantFiles(t, objects, complete()...)
}

// TestArchiveFails: whatever fails, there is no manifest, nothing hangs, and another
// attempt makes the backup.
func TestArchiveFails(t *testing.T) {
	t.Parallel()
	broken := func(key string) storetest.Fault {
		return storetest.Fault{Method: storetest.Put, Key: "*" + key, Nth: 1, Before: errBroken}
	}
	for name, tc := range map[string]struct {
		fail  func(context.Context) error
		fault *storetest.Fault
		text  string
	}{
		"the engine":          {fail: func(context.Context) error { return errBroken }},
		"the archive":         {fault: new(broken(".tar.gz")), text: "storing the archive"},
		"the archive, midway": {fault: &storetest.Fault{Method: storetest.Put, Key: "*.tar.gz", Nth: 1, Cut: true, CutAt: 10_000, CutErr: errBroken}, text: "storing the archive"},
		"the results":         {fault: new(broken("-results.gz")), text: "storing the files of the backup"},
		"the log":             {fault: new(broken("-logs.gz")), text: "storing a log"},
		"the manifest":        {fault: new(broken("velero-backup.json")), text: "committing the backup"},
		"the first look":      {fault: &storetest.Fault{Method: storetest.List, Nth: 2, Before: errBroken}, text: "looking for an earlier attempt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, scratch := memory.New(), t.TempDir()
			faulty := storetest.NewFaulty(objects)
			if tc.fault != nil {
				faulty.Add(*tc.fault)
			}
			_, err := archive(t.Context(), worker(t, scratch, &engine{fail: tc.fail}), open(faulty))
			if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("Archive: %v, want %q", err, tc.text)
			}
			if committed, err := open(objects).Committed(t.Context(), "nightly", "u-1"); committed || err != nil {
				t.Errorf("a run that failed is committed: %v, %v", committed, err)
			}
			if tc.fault == nil {
				wantFiles(t, objects) // half an archive must not even look like one
			}
			if _, err := archive(t.Context(), worker(t, scratch, &engine{}), open(objects)); err != nil {
				t.Errorf("the next attempt: %v", err)
			}
			wantFiles(t, objects, complete()...)
			if err := open(objects).Verify(t.Context(), "nightly"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStoreThatLies loses a part of the archive and says nothing.
func TestStoreThatLies(t *testing.T) {
	t.Parallel()
	objects := memory.New()
	faulty := storetest.NewFaulty(objects, storetest.Fault{Method: storetest.Put, Key: "*.tar.gz", Cut: true, CutAt: 10_000})
	_, err := archive(t.Context(), worker(t, t.TempDir(), &engine{}), open(faulty))
	if err == nil {
		t.Fatal("half of an archive was committed")
	}
	if committed, lookErr := open(objects).Committed(t.Context(), "nightly", "u-1"); committed || lookErr != nil {
		t.Errorf("committed: %v, %v after %v", committed, lookErr, err)
	}
}

// TestLostReply has the manifest written and its answer lost: the backup is there,
// and that is what counts.
func TestLostReply(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]bool{"the connection broke": false, "the run was cancelled": true} {
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
			result, err := archive(ctx, worker(t, t.TempDir(), &engine{}), open(store))
			if err != nil || result.Items != 3 || result.Bytes == 0 {
				t.Errorf("Archive: %+v, %v; want the result of the backup that is there", result, err)
			}
			if err := open(objects).Verify(t.Context(), "nightly"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCancelled stops the engine; what a person did is not an error of the engine.
func TestCancelled(t *testing.T) {
	t.Parallel()
	errCause := errors.New("a person cancelled it")
	ctx, cancel := context.WithCancelCause(t.Context())
	objects, scratch := memory.New(), t.TempDir()
	e := &engine{fail: func(ctx context.Context) error {
		cancel(errCause)
		<-ctx.Done()
		return context.Cause(ctx)
	}}
	if _, err := archive(ctx, worker(t, scratch, e), open(objects)); !errors.Is(err, errCause) && !errors.Is(err, context.Canceled) {
		t.Errorf("Archive: %v, want that it was cancelled", err)
	}
	j := worker(t, scratch, &engine{})
	if _, err := j.Archive(ctx, open(objects), request()); !errors.Is(err, context.Canceled) && !errors.Is(err, errCause) {
		t.Errorf("Archive with a context that has ended: %v", err)
	}
	if committed, err := open(objects).Committed(t.Context(), "nightly", "u-1"); committed || err != nil {
		t.Errorf("a run that was cancelled is committed: %v, %v", committed, err)
	}
	if err := j.Abandon(t.Context(), open(objects), request(), "cancelled"); err != nil {
		t.Error(err)
	}
	wantFiles(t, objects, "nightly-logs.gz", "nightly-results.gz")
}

// TestSpecThatIsNoJSON can not be stored, and says so before there is a manifest.
func TestSpecThatIsNoJSON(t *testing.T) {
	t.Parallel()
	objects := memory.New()
	j, store := worker(t, t.TempDir(), &engine{}), open(objects)
	req := request(func(r *job.Request) { r.Spec = json.RawMessage("{") })
	if err := j.Claim(t.Context(), store, req); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Archive(t.Context(), store, req); err == nil {
		t.Error("a manifest was written that is no JSON")
	}
	if committed, err := store.Committed(t.Context(), "nightly", "u-1"); committed || err != nil {
		t.Errorf("committed: %v, %v", committed, err)
	}
}
