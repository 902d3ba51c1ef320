// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
)

func listOf(prefix, backup string) objectstore.ListOptions {
	return objectstore.ListOptions{Prefix: prefix + "/backups/" + backup + "/"}
}

// observeStore reads what is stored, and checks that it is whole, or that its name
// is free.
func (l *lane) observeStore(t *testing.T, b *v1alpha1.Backup, r *result) {
	t.Helper()
	var err error
	if r.Stored, err = l.keys(t.Context(), b.Name); err != nil {
		t.Fatal(err)
	}
	if s := b.Status.Files; s != nil {
		for _, key := range []string{s.Archive, s.Log, s.Results, s.PostLog} {
			if key != "" && !slices.Contains(r.Stored, key) {
				t.Errorf("the status names %s, which is not stored", key)
			}
		}
	}
	if parts, err := l.objects.AbortUploads(t.Context(), l.name+"/backups/"+b.Name+"/"); err != nil || parts > 0 {
		t.Errorf("%d uploads were left behind (%v)", parts, err)
	}
	store := backupstore.New(l.objects, l.name)
	complete, err := store.Committed(t.Context(), b.Name, string(b.UID))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []backupstore.File{backupstore.Logs, backupstore.PostLogs} {
		lines, err := messages(t.Context(), store, b.Name, file)
		if err != nil {
			t.Fatal(err)
		}
		r.Logged = append(r.Logged, lines...)
	}
	if !complete {
		if err := store.Check(t.Context(), b.Name, "the UID of another Backup"); err != nil {
			t.Errorf("the name was not given back: %v", err)
		}
		return
	}
	if err := store.Verify(t.Context(), b.Name); err != nil {
		t.Error(err)
	}
	velero, grapnel, err := store.Manifest(t.Context(), b.Name)
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Status struct {
			Phase string `json:"phase"`
		} `json:"status"`
	}
	if err := json.Unmarshal(velero, &manifest); err != nil {
		t.Fatal(err)
	}
	r.ManifestPhase, r.Progress = manifest.Status.Phase, b.Status.Progress
	l.checkOutputs(t, b, grapnel)
	if r.Archive, err = contents(t.Context(), store, b.Name); err != nil {
		t.Fatal(err)
	}
}

// checkOutputs checks that what the PreBackup action answered is stored with the
// backup. All it ever answers is its key.
func (l *lane) checkOutputs(t *testing.T, b *v1alpha1.Backup, manifest *backupstore.GrapnelManifest) {
	t.Helper()
	for _, run := range l.hookRuns(t, b) {
		want := ""
		if run.Spec.Hook != v1alpha1.HookPreBackup {
			continue
		}
		if len(run.Status.Outputs) > 0 {
			want = string(run.UID)
		}
		if got := manifest.Outputs[run.Spec.PluginName]["from"]; got != want {
			t.Errorf("the manifest has the output %q of %s, want %q", got, run.Spec.PluginName, want)
		}
	}
}

// message is what a line of a log says.
var message = regexp.MustCompile(`msg=("[^"]*"|\S+)`)

// messages reads the different messages of a log, none if there is no log.
func messages(ctx context.Context, store *backupstore.Store, name string, file backupstore.File) ([]string, error) {
	stream, err := store.Get(ctx, name, file)
	if errors.Is(err, objectstore.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }()
	plain, err := gzip.NewReader(stream)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(plain)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, match := range message.FindAllStringSubmatch(string(text), -1) {
		found = append(found, string(file)+": "+match[1])
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// maxShown is how large an object may be to be compared as it is, not as its digest.
const maxShown = 64 << 10

// contents reads an archive; objects are normalised.
func contents(ctx context.Context, store *backupstore.Store, name string) (map[string]string, error) {
	stream, err := store.Get(ctx, name, backupstore.Contents)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }()
	files := map[string]string{}
	err = archive.Walk(stream, archive.Limits{}, func(e archive.Entry) error {
		if !e.IsObject() {
			files[e.Path] = string(e.Content)
			return nil
		}
		var object any
		if err := json.Unmarshal(e.Content, &object); err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
		normal, err := json.Marshal(object)
		if files[e.Path] = string(normal); len(normal) > maxShown {
			files[e.Path] = fmt.Sprintf("%d bytes %x", len(normal), sha256.Sum256(normal))
		}
		return err
	})
	return files, err
}
