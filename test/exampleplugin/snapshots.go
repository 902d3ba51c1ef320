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

// labelSnapshot with the value "true" requests a snapshot of a claim.
const labelSnapshot = "example.io/take-snapshot"

// snapshotClaimSelector selects the claims for the actions on snapshots.
func snapshotClaimSelector() item.Selector {
	return item.Selector{IncludedResources: []string{"persistentvolumeclaims"}, LabelSelector: labelSnapshot + "=true"}
}

// snapshots are the snapshots of a simulated storage system in a directory: one file for
// each. A real one would be called through its API.
type snapshots struct{ dir string }

// newSnapshots returns the snapshots in a directory below dir, or below the directory for
// temporary files if dir is empty.
func newSnapshots(dir string) *snapshots {
	if dir == "" {
		dir = os.TempDir()
	}
	return &snapshots{dir: filepath.Join(dir, "example-snapshots")}
}

// snapshot is one snapshot.
type snapshot struct {
	Name string `json:"name"`
	// Claim is the claim of the snapshot, "namespace/name".
	Claim string `json:"claim"`
}

// snapshotPath returns the file of a snapshot. Escaping makes any text a valid name, and the
// prefix prevents "..": names come from objects, which any user may have written.
func (s *snapshots) snapshotPath(name string) string {
	return filepath.Join(s.dir, "snapshot_"+url.PathEscape(name))
}

// createSnapshot takes a snapshot; an existing one is kept.
func (s *snapshots) createSnapshot(of snapshot) error {
	content, err := json.Marshal(of)
	if err != nil {
		return fmt.Errorf("encoding the snapshot: %w", err)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("creating the directory of snapshots: %w", err)
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

// hasSnapshot reports whether a snapshot exists.
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

// deleteSnapshot removes a snapshot. A missing snapshot is not an error.
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
