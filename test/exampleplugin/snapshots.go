// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// annotationSnapshot on an archived claim names its snapshot.
const annotationSnapshot = "example.io/snapshot"

// labelSnapshot with the value "true" says that a claim is to be snapshotted.
const labelSnapshot = "example.io/take-snapshot"

// snapshotClaimSelector is what the actions on snapshots apply to.
func snapshotClaimSelector() item.Selector {
	return item.Selector{IncludedResources: []string{"persistentvolumeclaims"}, LabelSelector: labelSnapshot + "=true"}
}

// snapshots are the snapshots of a storage system that exists in a folder: one file for
// each. A real one would be asked over its API.
type snapshots struct{ dir string }

// newSnapshots returns those in a folder below dir, or below the one for temporary
// files if dir is empty.
func newSnapshots(dir string) *snapshots {
	if dir == "" {
		dir = os.TempDir()
	}
	return &snapshots{dir: filepath.Join(dir, "example-snapshots")}
}

// snapshot is one snapshot.
type snapshot struct {
	Name string `json:"name"`
	// Claim is the claim that it was taken of, "namespace/name".
	Claim string `json:"claim"`
}

// snapshotPath returns the file of a snapshot. Escaping makes a name of any text, and the prefix
// keeps it from being "..": names come from objects, which anybody may have written.
func (s *snapshots) snapshotPath(name string) string {
	return filepath.Join(s.dir, "snapshot_"+url.PathEscape(name))
}

// createSnapshot takes a snapshot; one that was taken already stays.
func (s *snapshots) createSnapshot(of snapshot) error {
	content, err := json.Marshal(of)
	if err != nil {
		return fmt.Errorf("describing the snapshot: %w", err)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("creating the folder of snapshots: %w", err)
	}
	file, err := os.OpenFile(s.snapshotPath(of.Name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("taking the snapshot: %w", err)
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("taking the snapshot: %w", err)
	}
	return nil
}

// hasSnapshot reports whether there is a snapshot.
func (s *snapshots) hasSnapshot(name string) (bool, error) {
	_, err := os.Stat(s.snapshotPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for the snapshot: %w", err)
	}
	return true, nil
}

// deleteSnapshot removes a snapshot. One that is gone already is no error.
func (s *snapshots) deleteSnapshot(name string) error {
	if err := os.Remove(s.snapshotPath(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the snapshot: %w", err)
	}
	return nil
}

// removeSnapshot is a DeleteItemAction: when a backup is deleted, it removes the
// snapshots that takeSnapshot took for it.
type removeSnapshot struct{ snapshots *snapshots }

// AppliesTo selects the claims that have snapshots.
func (removeSnapshot) AppliesTo(context.Context) (item.Selector, error) {
	return snapshotClaimSelector(), nil
}

// Execute removes the snapshot of one archived claim.
func (r removeSnapshot) Execute(_ context.Context, req *item.DeleteRequest) error {
	name := req.Item.GetAnnotations()[annotationSnapshot]
	if name == "" {
		return nil
	}
	return r.snapshots.deleteSnapshot(name)
}
