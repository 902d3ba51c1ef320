// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"context"
	"errors"
	"fmt"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupimport"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/text"
)

// readEntry reads a manifest, and returns its cache entry and the object created from it, if
// there can be one. Both are nil if the backup no longer exists.
func (l *locationSync) readEntry(ctx context.Context, found storage.Entry) (*cacheEntry, *v1alpha1.Backup, error) {
	before := l.cache.entries[found.Name]
	b, err := l.readBackup(ctx, found.Name)
	if errors.Is(err, objectstore.ErrNotExist) {
		return nil, nil, nil
	}
	if err := l.locationError(ctx, err); err != nil {
		return nil, nil, err
	}
	known := &cacheEntry{unfinished: err == nil && b == nil}
	switch {
	case err != nil:
		known.problem = l.importProblem(err)
	case b != nil:
		known.uid = b.Spec.ImportedFrom.BackupUID
	}
	l.cache.putEntry(found, known)
	known.delayReread(before, l.RereadBackoff, l.Now())
	return known, b, nil
}

// readBackup reads a manifest and converts it to an object; nil if the backup has not finished.
func (l *locationSync) readBackup(ctx context.Context, name string) (*v1alpha1.Backup, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	velero, grapnel, err := l.store.ReadManifest(ctx, name)
	if err != nil {
		return nil, err
	}
	b, err := backupimport.BackupFromManifest(backupimport.Source{
		Namespace: l.bsl.Namespace, Location: l.bsl.Name, Prefix: l.bsl.Spec.Prefix, Name: name, Redact: l.Redactor.String,
	}, velero, grapnel)
	if b == nil || err != nil {
		return nil, err
	}
	if err := backupimport.AbridgeBackup(b); err != nil {
		return nil, err
	}
	if b.Annotations == nil {
		b.Annotations = map[string]string{}
	}
	b.Annotations[v1alpha1.AnnotationImportedBy] = importedBySync
	return b, nil
}

// errSlowReads means that a store lists its backups but does not serve their manifests.
var errSlowReads = fmt.Errorf("the location lists its backups, but %d manifests in a row could not be read in %s each; "+
	"check whether its service, volume or network is overloaded", maxSlowReads, readTimeout)

// locationError returns the error of reading a manifest if it concerns the location rather than
// one backup.
func (l *locationSync) locationError(ctx context.Context, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		l.slowReads = 0
	} else if l.slowReads++; l.slowReads == maxSlowReads && ctx.Err() == nil {
		return errSlowReads
	}
	if err != nil && (ctx.Err() != nil || errors.Is(err, objectstore.ErrUnavailable) || errors.Is(err, objectstore.ErrNoStore)) {
		return err
	}
	return nil
}

// importProblem returns why a backup cannot be imported.
func (l *locationSync) importProblem(err error) string {
	var corrupt *storage.CorruptError
	if errors.As(err, &corrupt) {
		return l.redactedLine(fmt.Sprintf("file %q %s", corrupt.File, corrupt.Reason))
	}
	return l.redactedLine(err.Error())
}

// maxProblemBytes is the maximum length of the reason why a backup cannot be imported, in bytes.
const maxProblemBytes = 400

// redactedLine returns a problem as one short line without secrets.
func (l *locationSync) redactedLine(problem string) string {
	return text.Truncate(executor.OneLine(l.Redactor.String(problem)), maxProblemBytes)
}
