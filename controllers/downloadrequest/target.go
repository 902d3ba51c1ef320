// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package downloadrequest

import (
	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

// The types of content that are served.
const (
	contentText    = "text/plain; charset=utf-8"
	contentJSON    = "application/json"
	contentArchive = "application/gzip"
)

// target is what a kind of DownloadTarget refers to: a file of a backup or of a restore. All stored
// files are compressed.
type target struct {
	backupFile  storage.File
	restoreFile storage.RestoreFile
	// log is the log of the operator that becomes the file at the end of the run; empty if the file is no
	// log.
	log         runlog.Stream
	contentType string
}

// findTarget returns the target of a kind. The API server rejects other kinds.
func findTarget(kind v1alpha1.DownloadTargetKind) target {
	switch kind {
	case v1alpha1.DownloadBackupLog:
		return target{backupFile: storage.Logs, log: runlog.Main, contentType: contentText}
	case v1alpha1.DownloadBackupPostLog:
		return target{backupFile: storage.PostLogs, log: runlog.PostActions, contentType: contentText}
	case v1alpha1.DownloadBackupResults:
		return target{backupFile: storage.Results, contentType: contentJSON}
	case v1alpha1.DownloadBackupResourceList:
		return target{backupFile: storage.ResourceList, contentType: contentJSON}
	case v1alpha1.DownloadBackupContents:
		return target{backupFile: storage.Contents, contentType: contentArchive}
	case v1alpha1.DownloadRestoreLog:
		return target{restoreFile: storage.RestoreLogs, log: runlog.Main, contentType: contentText}
	case v1alpha1.DownloadRestorePostLog:
		return target{restoreFile: storage.RestorePostLogs, log: runlog.PostActions, contentType: contentText}
	case v1alpha1.DownloadRestoreResults:
		return target{restoreFile: storage.RestoreResults, contentType: contentJSON}
	case v1alpha1.DownloadRestoreResourceList:
		return target{restoreFile: storage.RestoreResourceList, contentType: contentJSON}
	}
	return target{}
}

// newParent returns an empty Backup or Restore.
func (t target) newParent() lifecycle.Object {
	if t.restoreFile != "" {
		return &v1alpha1.Restore{}
	}
	return &v1alpha1.Backup{}
}

// parentKind returns "Backup" or "Restore".
func (t target) parentKind() string {
	if t.restoreFile != "" {
		return lifecycle.RestoreKind.Name
	}
	return lifecycle.BackupKind.Name
}

// storedFile is where a file is stored.
type storedFile struct {
	location, name string
	// ownerUID must be that of the stored backup; empty if the file is known to belong to the parent.
	ownerUID string
}

// findStoredFile returns where the file of a Backup or Restore is stored; the location is empty if it is not
// stored.
func (t target) findStoredFile(parent lifecycle.Object) storedFile {
	switch o := parent.(type) {
	case *v1alpha1.Backup:
		stored := storedFile{location: o.Location(), name: o.StoredName()}
		if o.Spec.ImportedFrom == nil {
			// A Backup that was refused, because its name is taken, must not show the files of the other one.
			stored.ownerUID = string(o.UID)
		}
		return stored
	case *v1alpha1.Restore:
		if f := o.Status.Files; f != nil && t.hasRestoreFile(f) {
			return storedFile{location: o.Status.StorageLocation, name: o.Name}
		}
	}
	return storedFile{}
}

// hasRestoreFile reports whether the Restore has recorded that the file is stored.
func (t target) hasRestoreFile(files *v1alpha1.RestoreFiles) bool {
	switch t.restoreFile {
	case storage.RestoreLogs:
		return files.Log != ""
	case storage.RestorePostLogs:
		return files.PostLog != ""
	case storage.RestoreResults:
		return files.Results != ""
	case storage.RestoreResourceList:
		return files.ResourceList != ""
	case storage.RestoreItemOperations: // cannot be downloaded
	}
	return false
}
