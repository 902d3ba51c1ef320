// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// open opens the location of a Backup until the test ends.
func (s site) open(ctx context.Context, t testing.TB, name string) *location.Store {
	t.Helper()
	var bsl v1alpha1.BackupStorageLocation
	Expect(world.Client.Get(ctx, types.NamespacedName{Namespace: s.Name, Name: name}, &bsl)).To(Succeed())
	opener := &location.Opener{Reader: world.Client, Root: s.StoreRoot(), Redactor: redact.New()}
	store, err := opener.Open(ctx, &bsl)
	Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// file returns a file of a Backup, decompressed; "" if there is none.
func (s site) file(t testing.TB, b *v1alpha1.Backup, file storage.File) string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	stored, err := s.open(ctx, t, b.Status.StorageLocation).GetFile(ctx, b.Name, file)
	if errors.Is(err, objectstore.ErrNotExist) {
		return ""
	}
	Expect(err).NotTo(HaveOccurred())
	reader, err := gzip.NewReader(stored)
	Expect(err).NotTo(HaveOccurred())
	content, err := io.ReadAll(reader)
	if err = errors.Join(err, stored.Close()); err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// results returns the results file of a Backup, and checks that kubectl shows its problems.
func (s site) results(t testing.TB, b *v1alpha1.Backup) results.Results {
	t.Helper()
	var r results.Results
	Expect(json.Unmarshal([]byte(s.file(t, b, storage.Results)), &r)).To(Succeed())
	world.CheckProblemsDescribed(t, "backups.grapnel.dev", b, r)
	return r
}

// messages returns the messages of problems.
func messages(problems results.Problems) []string {
	var list []string
	for _, p := range problems {
		list = append(list, p.Message)
	}
	return list
}

// says checks that one message has all the texts.
func says(t testing.TB, list []string, texts ...string) {
	t.Helper()
	if !slices.ContainsFunc(list, func(message string) bool { return contained(message, texts...) }) {
		t.Errorf("no message has all of %q:\n%s", texts, strings.Join(list, "\n"))
	}
}

// contained reports whether a message has all the texts.
func contained(message string, texts ...string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(message, text) })
}

// archived returns the archived objects of a Backup by path.
func (s site) archived(t testing.TB, b *v1alpha1.Backup) map[string]string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	stored, err := s.open(ctx, t, b.Status.StorageLocation).GetFile(ctx, b.Name, storage.Contents)
	Expect(err).NotTo(HaveOccurred())
	objects := map[string]string{}
	err = archive.Walk(stored, archive.Limits{}, func(entry archive.Entry) error {
		objects[entry.Path] = string(entry.Content)
		return nil
	})
	if err = errors.Join(err, stored.Close()); err != nil {
		t.Fatal(err)
	}
	return objects
}

// configMap is the path of a ConfigMap in an archive.
func configMap(namespace, name string) string {
	return "resources/configmaps/namespaces/" + namespace + "/" + name + ".json"
}

// contains checks that paths are in an archive.
func contains(t testing.TB, objects map[string]string, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if _, ok := objects[path]; !ok {
			t.Errorf("%s is not in the archive of %d files", path, len(objects))
		}
	}
}
