// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
)

// Found is what there is under a name in a location.
type Found struct {
	// Exists says that there is a manifest of Velero's, which makes a backup. Without
	// it there may be files of a backup that was never finished, or is half removed.
	Exists bool
	// UID of the Backup that made it; empty if that is not known, as of one of Velero.
	UID string
	// VeleroUID is what Velero's manifest says; empty if it can not be read.
	VeleroUID string
	// Damaged says in one line why the manifests can not be understood; empty if they can.
	Damaged string
	// Velero and Grapnel are the manifests. Both are empty of a damaged backup, and
	// Grapnel is nil for one of Velero.
	Velero  []byte
	Grapnel *backupstore.GrapnelManifest
}

// Look reads the manifests of a stored backup. The error is that of the store; that there
// is no backup, or a damaged one, is none.
func (j *Job) Look(ctx context.Context, store *backupstore.Store, name string) (Found, error) {
	velero, grapnel, err := store.Manifest(ctx, name)
	damaged := (*backupstore.CorruptError)(nil)
	switch {
	case errors.Is(err, objectstore.ErrNotExist), errors.Is(err, backupstore.ErrInvalidName):
		return Found{}, nil
	case errors.As(err, &damaged):
		return Found{Exists: true, Damaged: j.line(damaged.Error())}, nil
	case err != nil:
		return Found{}, err
	}
	found := Found{Exists: true, Velero: velero, Grapnel: grapnel}
	if grapnel != nil {
		found.UID = grapnel.BackupUID
	}
	uid, readable := uidIn(velero)
	if !readable {
		return Found{Exists: true, UID: found.UID, Damaged: "velero-backup.json is no object as JSON"}, nil
	}
	found.VeleroUID = uid
	return found, nil
}

// uidIn returns the UID that Velero's manifest tells.
func uidIn(manifest []byte) (uid string, readable bool) {
	var object struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	err := json.Unmarshal(manifest, &object)
	return object.Metadata.UID, err == nil
}

// Maker is the UID of who made it, Grapnel or Velero, as far as that is known.
func (f Found) Maker() string { return cmp.Or(f.UID, f.VeleroUID) }

// isOf reports whether a complete backup may be that of a request.
func (f Found) isOf(req Request) bool {
	if req.Force {
		return f.Exists && (f.Maker() == "" || req.UID == "" || f.Maker() == req.UID)
	}
	return f.Exists && f.UID == req.UID
}

// stored is what actions may be shown of what is stored under a name.
type stored struct {
	// there says that there may be an archive, and complete that there has to be one.
	there, complete bool
	// digest is what the archive has to be, as far as that is known.
	digest backupstore.Digest
	// taken says who has the name, if another backup has it.
	taken string
}

// own finds out whose backup it is. The error is that of the store, or a
// *backupstore.CorruptError if nobody can say.
func (j *Job) own(ctx context.Context, store *backupstore.Store, req Request) (stored, error) {
	if !req.Force && req.UID == "" {
		return stored{}, errNoUID
	}
	found, err := j.Look(ctx, store, req.Name)
	if err != nil {
		return stored{}, err
	}
	if found.isOf(req) {
		own := stored{there: true, complete: true}
		if found.Grapnel != nil {
			own.digest = found.Grapnel.Files[backupstore.Contents]
		}
		return own, nil
	}
	if req.UID == "" {
		return stored{there: backupstore.ValidateName(req.Name) == nil}, nil
	}
	there, err := store.Owns(ctx, req.Name, req.UID)
	if other := (*backupstore.TakenError)(nil); errors.As(err, &other) {
		return stored{taken: j.line(other.Error())}, nil
	}
	if damaged := (*backupstore.CorruptError)(nil); req.Force && errors.As(err, &damaged) {
		return stored{there: true}, nil
	}
	return stored{there: there, complete: there && found.Exists}, unlessImpossible(err)
}
