// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"sync"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

// verifiedArchive is a downloaded and verified archive with its manifest.
type verifiedArchive struct {
	manifest ManifestInfo
	spool    *archive.Spool
}

// verifiedArchives are archives that wait for their Restore, by UID. A Restore that began
// to verify has an entry, so that one that is released meanwhile leaves nothing behind.
type verifiedArchives struct {
	mu    sync.Mutex
	byUID map[string]*verifiedArchive
}

// reserveEntry returns the entry of a Restore, which is empty until fillEntry.
func (a *verifiedArchives) reserveEntry(uid string) *verifiedArchive {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byUID == nil {
		a.byUID = map[string]*verifiedArchive{}
	}
	entry := &verifiedArchive{}
	a.byUID[uid] = entry
	return entry
}

// fillEntry fills an entry. It returns false if the entry was removed.
func (a *verifiedArchives) fillEntry(uid string, entry *verifiedArchive, made verifiedArchive) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byUID[uid] != entry {
		return false
	}
	*entry = made
	return true
}

// takeArchive removes and returns the entry of a Restore; nil if there is none with an
// archive.
func (a *verifiedArchives) takeArchive(uid string) *verifiedArchive {
	a.mu.Lock()
	defer a.mu.Unlock()
	entry := a.byUID[uid]
	delete(a.byUID, uid)
	if entry == nil || entry.spool == nil {
		return nil
	}
	return entry
}

// VerifyArchive downloads and verifies the archive, and keeps it in the scratch directory
// until Restore uses it. It writes nothing to the cluster.
func (j *Runner) VerifyArchive(ctx context.Context, store *storage.Store, req RunRequest) error {
	log := j.Logs.Logger(req.logRun(), runlog.Main)
	ctx = logr.NewContext(ctx, log)
	entry := j.archives.reserveEntry(req.UID)
	made, err := j.downloadArchive(ctx, store, req)
	if err != nil {
		log.Error(err, "Verifying the archive failed")
		return err
	}
	if !j.archives.fillEntry(req.UID, entry, made) {
		return errors.Join(context.Canceled, made.spool.Close())
	}
	return nil
}

// ReleaseArchive frees the space of a verified archive that is not restored.
func (j *Runner) ReleaseArchive(uid string) {
	if kept := j.archives.takeArchive(uid); kept != nil {
		_ = kept.spool.Close() // opened only for reading
	}
}

// downloadArchive reads the manifest, and spools and verifies the archive.
func (j *Runner) downloadArchive(ctx context.Context, store *storage.Store, req RunRequest) (verifiedArchive, error) {
	log := logr.FromContextOrDiscard(ctx)
	log.Info("Downloading and verifying the archive", "restore", req.Namespace+"/"+req.Name, "backup", req.BackupName)
	found, err := j.ReadManifest(ctx, store, req.BackupName, req.Origin)
	if err != nil {
		return verifiedArchive{}, err
	}
	contents, err := store.GetFile(ctx, req.BackupName, storage.Contents)
	if err != nil {
		return verifiedArchive{}, unusableArchiveError(req.BackupName, err)
	}
	digest := found.Files[storage.Contents]
	spool, err := archive.NewSpool(ctx, contents, archive.SpoolOptions{
		Scratch: j.Scratch, Limits: j.Limits, SHA256: digest.SHA256, Size: digest.Size,
	})
	closeErr := contents.Close()
	if err == nil && closeErr != nil {
		closeErr = errors.Join(closeErr, spool.Close())
	}
	if err = errors.Join(err, closeErr); err != nil {
		return verifiedArchive{}, unusableArchiveError(req.BackupName, err)
	}
	log.Info("Verified the archive", "files", spool.Len())
	return verifiedArchive{manifest: found, spool: spool}, nil
}
