// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"testing"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

// archived are the writes of archives.
var archived = regexp.MustCompile(`\.tar\.gz`)

// backups archive a namespace.
type backups struct{ data string }

func (backups) kind() lifecycle.KindTraits { return lifecycle.BackupKind }

func (backups) setUp(*testing.T, *testOperator) {}

func (backups) directory(name string) string { return "backups/" + name }

func (b backups) begin(_ *testing.T, l *testOperator, name string) lifecycle.Object {
	object := &v1alpha1.Backup{ObjectMeta: l.meta(name)}
	object.Spec.IncludedNamespaces = []v1alpha1.NamePattern{v1alpha1.NamePattern(b.data)}
	object.Spec.ExcludedResources = []v1alpha1.NamePattern{comingAndGoing}
	return object
}

// left returns what is in the archive, and what its manifest says of it. It checks
// that a backup is whole, or that its name is free.
func (backups) left(t *testing.T, l *testOperator, o lifecycle.Object, _ int) map[string]string {
	t.Helper()
	store := storage.New(l.objects, l.name)
	complete, err := store.IsCommitted(t.Context(), o.GetName(), string(o.GetUID()))
	if err != nil {
		t.Fatal(err)
	}
	if !complete {
		if err := store.CheckClaim(t.Context(), o.GetName(), "the UID of another Backup"); err != nil {
			t.Errorf("the name was not given back: %v", err)
		}
		return nil
	}
	if err := store.Verify(t.Context(), o.GetName()); err != nil {
		t.Error(err)
	}
	velero, grapnel, err := store.ReadManifest(t.Context(), o.GetName())
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
	l.checkOutputs(t, o, grapnel)
	found, err := contents(t.Context(), store, o.GetName())
	if err != nil {
		t.Fatal(err)
	}
	found["phase in the manifest"] = manifest.Status.Phase
	if b, ok := o.(*v1alpha1.Backup); ok {
		found["progress"] = fmt.Sprintf("%+v", b.Status.Progress)
	}
	return found
}

// checkOutputs checks that what the PreBackup action answered is stored with the
// backup. All it ever answers is its key.
func (l *testOperator) checkOutputs(t *testing.T, o lifecycle.Object, manifest *storage.GrapnelManifest) {
	t.Helper()
	for _, run := range l.hookRuns(t, o) {
		want := ""
		if run.Spec.Hook != v1alpha1.HookPreBackup {
			continue
		}
		if len(run.Status.Outputs) > 0 {
			want = string(run.UID)
		}
		if got := manifest.Outputs[run.Spec.ActionName]["from"]; got != want {
			t.Errorf("the manifest has the output %q of %s, want %q", got, run.Spec.ActionName, want)
		}
	}
}

// maxShown is how large an object may be to be compared as it is, not as its digest.
const maxShown = 64 << 10

// contents reads an archive; objects are normalised.
func contents(ctx context.Context, store *storage.Store, name string) (map[string]string, error) {
	stream, err := store.GetFile(ctx, name, storage.Contents)
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
