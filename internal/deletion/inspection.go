// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// StoredBackup is what is stored under a name in a location.
type StoredBackup struct {
	// Exists is set if there is a manifest of Velero, which defines a backup. Without it there
	// may be files of a backup that was never finished, or is half removed.
	Exists bool
	// UID of the Backup that made it; empty if it is unknown, as for a backup of Velero.
	UID string
	// VeleroUID is the UID in Velero's manifest; empty if the manifest cannot be read.
	VeleroUID string
	// Damaged says in one line why the manifests cannot be parsed; empty if they can.
	Damaged string
	// VeleroManifest and GrapnelManifest are the manifests. Both are empty for a damaged
	// backup, and GrapnelManifest is nil for a backup of Velero.
	VeleroManifest  []byte
	GrapnelManifest *storage.GrapnelManifest
}

// Inspect reads the manifests of a stored backup. The error is that of the store; a missing
// or damaged backup is no error.
func (j *Runner) Inspect(ctx context.Context, store *storage.Store, name string) (StoredBackup, error) {
	velero, grapnel, err := store.ReadManifest(ctx, name)
	damaged := (*storage.CorruptError)(nil)
	switch {
	case errors.Is(err, objectstore.ErrNotExist), errors.Is(err, storage.ErrInvalidName):
		return StoredBackup{}, nil
	case errors.As(err, &damaged):
		return StoredBackup{Exists: true, Damaged: j.redactedLine(damaged.Error())}, nil
	case err != nil:
		return StoredBackup{}, err
	}
	found := StoredBackup{Exists: true, VeleroManifest: velero, GrapnelManifest: grapnel}
	if grapnel != nil {
		found.UID = grapnel.BackupUID
	}
	uid, readable := uidFromManifest(velero)
	if !readable {
		return StoredBackup{Exists: true, UID: found.UID, Damaged: "velero-backup.json is not a JSON object"}, nil
	}
	found.VeleroUID = uid
	return found, nil
}

// uidFromManifest returns the UID in Velero's manifest.
func uidFromManifest(manifest []byte) (uid string, readable bool) {
	var object struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	err := json.Unmarshal(manifest, &object)
	return object.Metadata.UID, err == nil
}

// CreatorUID returns the UID of the creator, in Grapnel or Velero, as far as it is known.
func (f StoredBackup) CreatorUID() string { return cmp.Or(f.UID, f.VeleroUID) }

// matchesRequest reports whether a complete backup may be the one of a request.
func (f StoredBackup) matchesRequest(req Request) bool {
	if req.Force {
		return f.Exists && (f.CreatorUID() == "" || req.UID == "" || f.CreatorUID() == req.UID)
	}
	return f.Exists && f.UID == req.UID
}

// archiveOwnership says which stored files of a name actions may receive.
type archiveOwnership struct {
	// mayHaveArchive is set if there may be an archive, and mustHaveArchive if there must be one.
	mayHaveArchive, mustHaveArchive bool
	// digest is the expected digest of the archive, as far as it is known.
	digest storage.Digest
	// nameConflict says which other backup has the name, if one has.
	nameConflict string
}

// resolveOwnership determines the owner of the backup. The error is that of the store, or a
// *storage.CorruptError if the owner is unknown.
func (j *Runner) resolveOwnership(ctx context.Context, store *storage.Store, req Request) (archiveOwnership, error) {
	if !req.Force && req.UID == "" {
		return archiveOwnership{}, errNoUID
	}
	found, err := j.Inspect(ctx, store, req.Name)
	if err != nil {
		return archiveOwnership{}, err
	}
	if found.matchesRequest(req) {
		own := archiveOwnership{mayHaveArchive: true, mustHaveArchive: true}
		if found.GrapnelManifest != nil {
			own.digest = found.GrapnelManifest.Files[storage.Contents]
		}
		return own, nil
	}
	if req.UID == "" {
		return archiveOwnership{mayHaveArchive: storage.ValidateName(req.Name) == nil}, nil
	}
	there, err := store.IsOwnedBy(ctx, req.Name, req.UID)
	if other := (*storage.TakenError)(nil); errors.As(err, &other) {
		return archiveOwnership{nameConflict: j.redactedLine(other.Error())}, nil
	}
	if damaged := (*storage.CorruptError)(nil); req.Force && errors.As(err, &damaged) {
		return archiveOwnership{mayHaveArchive: true}, nil
	}
	return archiveOwnership{mayHaveArchive: there, mustHaveArchive: there && found.Exists}, ignoreInvalidName(err)
}
