// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

// restoreFacts are the results of the restore.
type restoreFacts struct {
	ran
	restore v1alpha1.Restore
	// archived is how many objects the archive has.
	archived int
	// outcomes counts the objects in the list of resources by kind and by what became
	// of them.
	outcomes map[string]map[string]int
	// missing are files that the status names and the store does not have.
	missing []string

	restored   restored
	comparison comparison
}

// collectRestore reads everything from where a user would find it.
func (d *demo) collectRestore(ctx context.Context) (*restoreFacts, error) {
	f := &restoreFacts{archived: d.objects}
	if err := d.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: restoreName}, &f.restore); err != nil {
		return nil, err
	}
	var err error
	if f.ran, err = d.collectRun(ctx, lifecycle.RestoreKind, &f.restore, d.dataOf(namespaceMapping()[dataNamespace])); err != nil {
		return nil, err
	}
	if err := d.readRestoreFiles(ctx, f); err != nil {
		return nil, err
	}
	f.restored = restored{
		mapping: namespaceMapping(), backup: backupName, restore: restoreName, uid: string(f.restore.UID),
	}
	all := map[string]bool{}
	for _, name := range append(applicationNamespaces(), restoredNamespaces()...) {
		all[name] = true
	}
	if f.restored.before, err = readSnapshot(d.snapshotFile("before.json"), all); err != nil {
		return nil, err
	}
	if f.restored.after, err = readSnapshot(d.snapshotFile("after.json"), all); err != nil {
		return nil, err
	}
	f.comparison = compareAll(&f.restored)
	return f, nil
}

// readRestoreFiles reads what is stored.
func (d *demo) readRestoreFiles(ctx context.Context, f *restoreFacts) (err error) {
	objects, err := d.openStore()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	for _, key := range storedRestoreFiles(&f.restore) {
		if entry, err := objects.Stat(ctx, key); err != nil || entry.Size == 0 {
			f.missing = append(f.missing, fmt.Sprintf("%q: %v", key, err))
		}
	}
	store := storage.New(objects, "")
	if f.log, err = readLog(store.GetRestoreFile(ctx, restoreName, storage.RestoreLogs)); err != nil {
		return err
	}
	if f.postLog, err = readLog(store.GetRestoreFile(ctx, restoreName, storage.RestorePostLogs)); err != nil {
		return err
	}
	text, err := readCompressed(store.GetRestoreFile(ctx, restoreName, storage.RestoreResourceList))
	if err != nil {
		return err
	}
	f.outcomes, err = countOutcomes(text)
	return err
}

// storedRestoreFiles returns the files that the status names.
func storedRestoreFiles(r *v1alpha1.Restore) []string {
	if r.Status.Files == nil {
		return nil
	}
	files := *r.Status.Files
	return []string{files.Log, files.Results, files.ResourceList, files.PostLog}
}

// countOutcomes reads a list of resources, which has "namespace/name(outcome)" of
// each object by its kind.
func countOutcomes(text []byte) (map[string]map[string]int, error) {
	var list map[string][]string
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("decoding the list of resources: %w", err)
	}
	outcomes := map[string]map[string]int{}
	for kind, names := range list {
		if slices.Sort(names); len(slices.Compact(slices.Clone(names))) != len(names) {
			return nil, fmt.Errorf("the list of resources has an object of %s twice", kind)
		}
		outcomes[kind] = map[string]int{}
		for _, name := range names {
			_, outcome, ok := strings.Cut(strings.TrimSuffix(name, ")"), "(")
			if !ok {
				return nil, fmt.Errorf("the list of resources has %q without an outcome", name)
			}
			outcomes[kind][outcome]++
		}
	}
	return outcomes, nil
}

// outcome is how many objects of all kinds had an outcome.
func (f *restoreFacts) outcome(name string) int64 {
	var n int64
	for _, of := range f.outcomes {
		n += int64(of[name])
	}
	return n
}
