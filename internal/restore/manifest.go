// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// Origin is what is known about the creator of a backup, apart from the stored data.
type Origin struct {
	// Native reports that the Backup that created it is in this cluster, so it is
	// Grapnel's.
	Native bool
	// AllowUnverified reports that a user wants to restore an archive of Grapnel that
	// cannot be verified, because its manifest is missing.
	AllowUnverified bool
}

// ManifestInfo is the content of the manifest of a backup.
type ManifestInfo struct {
	// UID of the Backup that created it; empty if unknown.
	UID string
	// FormatVersion of the archive.
	FormatVersion string
	// Phase in which the backup ended.
	Phase string
	// Outputs are the answers of its PreBackup actions, by action.
	Outputs map[string]map[string]string
	// Files are the digests of its files; nil for a backup of Velero.
	Files map[storage.File]storage.Digest
	// Unverified reports that it is a backup of Grapnel without digests.
	Unverified bool
}

// hasAPIVersions reports whether directories of the archive are API versions, which is the
// case since the format version that Grapnel writes.
func (f ManifestInfo) hasAPIVersions() bool {
	found, err := version.ParseGeneric(f.FormatVersion)
	return err == nil && found.AtLeast(version.MustParseGeneric(archive.FormatVersion))
}

// unverifiedWarning is the warning of a Restore with Origin.AllowUnverified.
const unverifiedWarning = "The archive was restored without being verified, as an annotation of this Restore allows: " +
	"Grapnel's manifest of the backup is missing, so anyone who can write to the location may have changed what was restored"

// ReadManifest reads the manifest of a backup. The error is ErrBackupNotFound if there is
// none, and ErrDamaged if it is invalid. It is ErrUnverified for a backup of Grapnel whose
// Grapnel manifest is missing.
func (j *Runner) ReadManifest(ctx context.Context, store *storage.Store, name string, origin Origin) (ManifestInfo, error) {
	velero, grapnel, err := store.ReadManifest(ctx, name)
	if errors.Is(err, objectstore.ErrNotExist) {
		return ManifestInfo{}, fmt.Errorf("%w: %q", ErrBackupNotFound, name)
	}
	if damaged := (*storage.CorruptError)(nil); errors.As(err, &damaged) {
		return ManifestInfo{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return ManifestInfo{}, err
	}
	var manifest struct {
		Metadata struct {
			UID         string            `json:"uid"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Status struct {
			Phase         string `json:"phase"`
			FormatVersion string `json:"formatVersion"`
		} `json:"status"`
	}
	if err := json.Unmarshal(velero, &manifest); err != nil {
		return ManifestInfo{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	found := ManifestInfo{UID: manifest.Metadata.UID, FormatVersion: manifest.Status.FormatVersion, Phase: manifest.Status.Phase}
	if grapnel != nil {
		found.UID, found.Outputs, found.Files = grapnel.BackupUID, grapnel.Outputs, grapnel.Files
		return found, nil
	}
	_, annotated := manifest.Metadata.Annotations[storage.ManifestAnnotation]
	ours := origin.Native || annotated
	if !ours { // written before the annotation existed
		claimant, err := store.ClaimantUID(ctx, name)
		if err != nil {
			return ManifestInfo{}, err
		}
		ours = claimant != "" && claimant == found.UID
	}
	if ours && !origin.AllowUnverified {
		return ManifestInfo{}, fmt.Errorf("%w: %s-grapnel.json is missing", ErrUnverified, name)
	}
	found.Unverified = ours
	return found, nil
}
