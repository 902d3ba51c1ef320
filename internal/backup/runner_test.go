// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/selection"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
)

func TestArchive(t *testing.T) {
	t.Parallel()
	memory := memory.New()
	objects := storetest.NewFaultyStore(memory)
	store, e := open(objects), &engine{warnings: []string{"PersistentVolumeClaim shop/data: its data is not captured"}}
	j := worker(t, t.TempDir(), e)
	req := request(func(r *backup.Request) { r.Warnings = []string{"example.io/notify was ignored"} })
	if err := errors.Join(j.CheckClaim(t.Context(), store, req), j.Claim(t.Context(), store, req)); err != nil {
		t.Fatal(err)
	}
	got, err := j.Archive(t.Context(), store, req)
	if err != nil {
		t.Fatal(err)
	}
	problems := append(newProblems(results.Subject{}, "PersistentVolumeClaim shop/data: its data is not captured"),
		results.Problem{Reason: results.ReasonPlanWarning, Message: "example.io/notify was ignored"})
	if want := (backup.Result{Items: 3, Warnings: 2, Bytes: got.Bytes, Completed: ended, Problems: results.Results{Warnings: problems}}); !cmp.Equal(got, want) || got.Phase() != "Completed" {
		t.Errorf("result is %+v, %s; want %+v, Completed", got, got.Phase(), want)
	}
	if size := int64(len(content(t, memory, "nightly.tar.gz"))); got.Bytes != size || size < 100_000 {
		t.Errorf("the archive has %d bytes, the result says %d", size, got.Bytes)
	}
	wantFiles(t, memory, complete()...)
	if err := store.Verify(t.Context(), "nightly"); err != nil {
		t.Errorf("the backup cannot be verified: %v", err)
	}
	want := backup.ArchiveRequest{Selection: selection.Spec{IncludedNamespaces: []string{"shop"}}, AllVersions: true, StartTime: begun}
	if diff := cmp.Diff(want, e.got, cmpopts.IgnoreFields(backup.ArchiveRequest{}, "Progress")); diff != "" {
		t.Errorf("the engine was asked for (-want +got):\n%s", diff)
	}

	var puts []string
	for _, call := range objects.Calls() {
		if call.Method == storetest.MethodPut {
			puts = append(puts, call.Key)
		}
	}
	if n := len(puts); puts[n-1] != "backups/nightly/velero-backup.json" || puts[n-2] != "backups/nightly/nightly-grapnel.json" {
		t.Errorf("the manifests are not the last that is written: %q", puts)
	}
	for name, want := range map[string]string{
		"nightly-results.gz": `{"warnings":{"velero":["PersistentVolumeClaim shop/data: its data is not captured","example.io/notify was ignored"],"problems":[` +
			`{"reason":"Told","message":"PersistentVolumeClaim shop/data: its data is not captured"},` +
			`{"reason":"PlanWarning","message":"example.io/notify was ignored"}]},"errors":{}}`,
		"nightly-resource-list.json.gz": `{"v1/ConfigMap":["shop/a","shop/b"],"v1/Namespace":["shop"]}`,
		"nightly-volumeinfo.json.gz":    `[]`, "nightly-itemoperations.json.gz": `[]`,
		"nightly-podvolumebackups.json.gz": `[]`, "nightly-volumesnapshots.json.gz": `[]`,
	} {
		if diff := cmp.Diff(decode(t, want), decode(t, unzipped(t, memory, name))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if log := unzipped(t, memory, "nightly-logs.gz"); !strings.Contains(log, "Reading objects") || !strings.Contains(log, "warnings=2") {
		t.Errorf("the log is %s", log)
	}
}

// TestArchive_Manifests reads the data for other systems and clusters.
func TestArchive_Manifests(t *testing.T) {
	t.Parallel()
	objects := memory.New()
	store := open(objects)
	j := worker(t, t.TempDir(), &engine{errs: []string{"Widget w: could not be listed"}})
	if err := j.Claim(t.Context(), store, request()); err != nil {
		t.Fatal(err)
	}
	result, err := j.Archive(t.Context(), store, request())
	if err != nil || result.Phase() != "PartiallyFailed" {
		t.Fatalf("result %+v, %s, %v; want PartiallyFailed", result, result.Phase(), err)
	}
	// No expiration in the status: a Velero server would delete the backup then.
	want := `{
		"apiVersion": "velero.io/v1", "kind": "Backup",
		"metadata": {
			"name": "nightly", "namespace": "grapnel-system", "uid": "u-1", "creationTimestamp": "2026-11-21T04:00:00Z",
			"labels": {"team": "shop", "velero.io/storage-location": "main"}, "annotations": {"grapnel.dev/manifest-version": "1", "why": "because"}
		},
		"spec": {"includedNamespaces": ["shop"], "ttl": "720h0m0s"},
		"status": {
			"version": 1, "formatVersion": "1.1.0", "phase": "PartiallyFailed", "errors": 1,
			"startTimestamp": "2026-11-21T04:00:00Z", "completionTimestamp": "2026-11-21T04:01:30Z",
			"progress": {"totalItems": 3, "itemsBackedUp": 3}
		}
	}`
	if diff := cmp.Diff(decode(t, want), decode(t, content(t, objects, "velero-backup.json"))); diff != "" {
		t.Errorf("velero-backup.json (-want +got):\n%s", diff)
	}
	_, manifest, err := store.ReadManifest(t.Context(), "nightly")
	if err != nil {
		t.Fatal(err)
	}
	if manifest.BackupUID != "u-1" || manifest.Outputs["example.io/freeze"]["replicas"] != "3" ||
		!cmp.Equal(decode(t, string(manifest.Backup)), decode(t, `{"kind":"Backup","spec":{}}`)) || len(manifest.Files) != 8 {
		t.Errorf("the manifest is %+v", manifest)
	}
}

// TestFindCommitted finds the backup that an operator committed before it died: nothing is
// written again.
func TestFindCommitted(t *testing.T) {
	t.Parallel()
	objects := memory.New()
	store := open(objects)
	first := worker(t, t.TempDir(), &engine{errs: []string{"e"}, warnings: []string{"w", "v"}, missing: []string{"shp"}})
	if _, err := first.FindCommitted(t.Context(), store, request()); err == nil {
		t.Error("an attempt is found that there never was")
	}
	if err := first.Claim(t.Context(), store, request()); err != nil {
		t.Fatal(err)
	}
	made, err := first.Archive(t.Context(), store, request())
	if err != nil {
		t.Fatal(err)
	}
	before := content(t, objects, "velero-backup.json")
	second := worker(t, t.TempDir(), &engine{fail: func(context.Context) error { return errors.New("the engine ran again") }})
	for range 2 {
		if err := errors.Join(second.CheckClaim(t.Context(), store, request()), second.Claim(t.Context(), store, request())); err != nil {
			t.Fatal(err)
		}
		got, err := second.Archive(t.Context(), store, request())
		if err != nil {
			t.Fatal(err)
		}
		made.Bytes = 0 // as documented
		if diff := cmp.Diff(made, got); diff != "" {
			t.Errorf("the result of the earlier attempt (-want +got):\n%s", diff)
		}
	}
	if content(t, objects, "velero-backup.json") != before {
		t.Error("the manifest was written again")
	}
}

// TestClaim_NameTaken finds a backup of the same name before anything runs, and never changes it.
func TestClaim_NameTaken(t *testing.T) {
	t.Parallel()
	for name, finish := range map[string]bool{"that is complete": true, "that still runs": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := memory.New()
			store, j := open(objects), worker(t, t.TempDir(), &engine{})
			if err := j.Claim(t.Context(), store, request()); err != nil {
				t.Fatal(err)
			}
			if finish {
				if _, err := j.Archive(t.Context(), store, request()); err != nil {
					t.Fatal(err)
				}
			}
			before := files(t, objects)
			other := request(ownedBy("u-2"))
			_, archiveErr := j.Archive(t.Context(), store, other)
			_, postErr := j.UploadPostActionLog(t.Context(), store, other)
			j.Logs.Logger(runlog.Run{UID: "u-2"}, "post").Info("x")
			_, postLogErr := j.UploadPostActionLog(t.Context(), store, other)
			for what, err := range map[string]error{
				"Check": j.CheckClaim(t.Context(), store, other), "Claim": j.Claim(t.Context(), store, other),
				"Archive": archiveErr, "Abandon": j.Abandon(t.Context(), store, other, "no"), "StorePostLog": postLogErr,
			} {
				if !backup.IsNameTaken(err) {
					t.Errorf("%s: %v, want that the name is taken", what, err)
				}
			}
			if err := errors.Join(postErr, j.Release(t.Context(), store, other)); err != nil {
				t.Errorf("nothing to store and nothing to release: %v", err)
			}
			if diff := cmp.Diff(before, files(t, objects)); diff != "" {
				t.Errorf("files (-before +after):\n%s", diff)
			}
			if !finish {
				if err := j.CheckClaim(t.Context(), store, request(ownedBy("u-1"))); err != nil {
					t.Errorf("its owner lost the name: %v", err)
				}
			}
		})
	}
}

// TestArchive_WithoutClaim refuses to write without a claim.
func TestArchive_WithoutClaim(t *testing.T) {
	t.Parallel()
	objects := memory.New()
	if _, err := worker(t, t.TempDir(), &engine{}).Archive(t.Context(), open(objects), request()); !errors.Is(err, storage.ErrNotClaimed) {
		t.Errorf("Archive: %v, want ErrNotClaimed", err)
	}
	wantFiles(t, objects)
}
