// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

const (
	backupName = "shop"
	// databasePath is where the custom resource is in the archive.
	databasePath = "resources/databases.shop.example/namespaces/shop-data/orders.json"
)

// facts are the results of the backup.
type facts struct {
	ran
	backup v1alpha1.Backup
	// liveDatabase and database are the spec of the custom resource in the cluster
	// and in the archive.
	liveDatabase, database any

	// damage is what is wrong with the stored files.
	damage error
	files  []storedFile
	// paths are those of the archive, in its order; objects each object once.
	paths   []string
	objects []archive.Identity
}

// storedFile is one file of the backup, by its name below the location.
type storedFile struct {
	name string
	size int64
}

// collect reads everything from where a user would find it.
func (d *demo) collect(ctx context.Context) (*facts, error) {
	f := &facts{}
	if err := d.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: backupName}, &f.backup); err != nil {
		return nil, err
	}
	var err error
	copied := filepath.Join(d.state(), "example-copies", string(f.backup.UID), dataNamespace, claim)
	if f.ran, err = d.collectRun(ctx, lifecycle.BackupKind, &f.backup, copied); err != nil {
		return nil, err
	}
	database := &unstructured.Unstructured{}
	database.SetGroupVersionKind(schema.GroupVersionKind{Group: "shop.example", Version: "v1", Kind: "Database"})
	if err := d.client.Get(ctx, types.NamespacedName{Namespace: "shop-data", Name: "orders"}, database); err != nil {
		return nil, err
	}
	f.liveDatabase = database.Object["spec"]
	return f, d.readStore(ctx, f)
}

// readStore reads what is stored. A file that is missing is left to verify.
func (d *demo) readStore(ctx context.Context, f *facts) (err error) {
	objects, err := d.openStore()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	for entry, err := range objects.List(ctx, objectstore.ListOptions{}) {
		if err != nil {
			return err
		}
		f.files = append(f.files, storedFile{name: entry.Key, size: entry.Size})
	}
	store := storage.New(objects, "")
	f.damage = store.Verify(ctx, backupName)
	if f.log, err = readLog(store.GetFile(ctx, backupName, storage.Logs)); err != nil {
		return err
	}
	if f.postLog, err = readLog(store.GetFile(ctx, backupName, storage.PostLogs)); err != nil {
		return err
	}
	return readArchive(ctx, store, f)
}

func readArchive(ctx context.Context, store *storage.Store, f *facts) (err error) {
	r, err := store.GetFile(ctx, backupName, storage.Contents)
	if errors.Is(err, objectstore.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return archive.Walk(r, archive.Limits{}, func(entry archive.Entry) error {
		f.paths = append(f.paths, entry.Path)
		// The copy without a version is there once for each object.
		if entry.IsObject() && entry.Object.Version == "" {
			f.objects = append(f.objects, entry.Object)
		}
		if entry.Path != databasePath {
			return nil
		}
		var object unstructured.Unstructured
		if err := json.Unmarshal(entry.Content, &object); err != nil {
			return fmt.Errorf("decoding %s: %w", entry.Path, err)
		}
		f.database = object.Object["spec"]
		return nil
	})
}
