// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
)

// stored returns a compressed file of the restore as it is in the store.
func stored(t *testing.T, objects objectstore.Store, file string) string {
	t.Helper()
	source, err := objects.Get(t.Context(), "restores/again/restore-again"+file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = source.Close() }()
	plain, err := gzip.NewReader(source)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(plain)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestUploadPostActionLog reads back what is stored: the lines of the PostRestore actions, and
// none of the restore.
func TestUploadPostActionLog(t *testing.T) {
	objects := storeWithBackup(t, 0, nil)
	store, j := storage.New(objects, ""), operator(t, t.TempDir(), nil)
	if written, err := j.UploadPostActionLog(t.Context(), store, request); err != nil || written {
		t.Errorf("StorePostLog without lines: %t, %v; want none", written, err)
	}
	if _, err := j.Restore(t.Context(), store, request); err != nil {
		t.Fatal(err)
	}
	before := stored(t, objects, "-logs.gz")
	j.Logs.Logger(runlog.Run{UID: request.UID}, runlog.PostActions).Info("Started the application", "action", "thaw")
	if written, err := j.UploadPostActionLog(t.Context(), store, request); err != nil || !written {
		t.Fatalf("StorePostLog: %t, %v; want a file", written, err)
	}
	log := stored(t, objects, "-post-logs.gz")
	if !strings.Contains(log, "Started the application") || !strings.Contains(log, "thaw") || strings.Contains(log, "Restoring objects") {
		t.Errorf("the log of the PostRestore actions is %q", log)
	}
	if after := stored(t, objects, "-logs.gz"); after != before || strings.Contains(after, "Started the application") {
		t.Errorf("the log of the restore is %q, want it as it was", after)
	}
}

// recording is an engine that records its requests.
type recording struct {
	useVersions bool
	versions    []string
}

// RestoreObjects implements restore.ObjectRestorer.
func (r *recording) RestoreObjects(_ context.Context, req restore.Request) (restore.Result, error) {
	r.useVersions, r.versions = req.UseVersions, req.Archive.Resources()[0].Versions
	return restore.Result{ResourceList: maps.All(map[string][]string{})}, nil
}

// TestRestore_FormatVersion uses archives with a directory for each version, and manifests
// with another format version. Before 1.1.0 such a directory had no meaning.
func TestRestore_FormatVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		formatVersion string
		useVersions   bool
		want          bool
	}{
		"with versions":             {formatVersion: "1.1.0", useVersions: true, want: true},
		"without the feature":       {formatVersion: "1.1.0"},
		"before versions":           {formatVersion: "1.0.0", useVersions: true},
		"Velero's first":            {formatVersion: "1", useVersions: true},
		"no format version":         {useVersions: true},
		"a later one":               {formatVersion: "1.2.0", useVersions: true, want: true},
		"a later one of two digits": {formatVersion: "1.10.0", useVersions: true, want: true},
		"a much later one":          {formatVersion: "10.0.0", useVersions: true, want: true},
		"no version at all":         {formatVersion: "new", useVersions: true},
	} {
		t.Run(name, func(t *testing.T) {
			var contents bytes.Buffer
			w, err := archive.NewWriter(&contents, archive.WriterOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, version := range []string{"v1", "v1beta1"} {
				id := archive.Identity{Group: "example.org", Resource: "widgets", Version: version, Preferred: version == "v1", Name: "w"}
				if err := w.AddObject(archive.Item{Identity: id, JSON: []byte("{}")}); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			objects := memory.New()
			for file, content := range map[string]string{
				"nightly.tar.gz":     contents.String(),
				"velero-backup.json": fmt.Sprintf(`{"status":{"phase":"Completed","formatVersion":%q}}`, tc.formatVersion),
			} {
				if _, err := objects.Put(t.Context(), "backups/nightly/"+file, strings.NewReader(content), objectstore.PutOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			engine := &recording{}
			j := operator(t, t.TempDir(), nil)
			j.Engine = engine
			if _, err := j.Restore(t.Context(), storage.New(objects, ""), restore.RunRequest{
				Name: "again", UID: "u-1", BackupName: "nightly", UseVersions: tc.useVersions,
			}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(engine.versions, []string{"v1", "v1beta1"}) {
				t.Fatalf("the archive has the versions %q, want two", engine.versions)
			}
			if engine.useVersions != tc.want {
				t.Errorf("an API version is chosen: %t, want %t", engine.useVersions, tc.want)
			}
		})
	}
}
