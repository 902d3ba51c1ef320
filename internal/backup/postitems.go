// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// asyncActionKind is the kind of actions that only start operations.
const asyncActionKind = "AsyncBackupItemAction"

// listPostOperationItems returns the objects to archive after the operations, without duplicates: those
// that completed operations requested, and the claims of operations that did not complete. Their action
// wrote into the archived claim where its data would be, which a Restore must not expect.
func listPostOperationItems(ended []velero.Operation) []itemaction.RelatedItem {
	var out []itemaction.RelatedItem
	seen := map[velero.ResourceIdentifier]bool{}
	for i := range ended {
		operation := &ended[i]
		items := operation.PostItems
		if operation.Phase != velero.OperationCompleted {
			items = nil
			if operation.Kind == asyncActionKind && operation.Object.GroupResource == persistentVolumeClaims {
				items = []velero.ResourceIdentifier{operation.Object}
			}
		}
		for _, item := range items {
			if !seen[item] {
				seen[item] = true
				out = append(out, itemaction.RelatedItem{Resource: item.GroupResource, Namespace: item.Namespace, Name: item.Name})
			}
		}
	}
	return out
}

// archivePostOperationItems archives objects that are new or have changed since the first
// archive, and stores the whole archive with them beside the first. If there is such an
// archive, the returned draft is stored, too.
func (j *Runner) archivePostOperationItems(
	ctx context.Context, attempt *storage.Attempt, req Request, d draft, phase string, only []itemaction.RelatedItem,
) (_ draft, err error) {
	made, overlay, err := j.archiveOverlay(ctx, req, phase, only, d.ResourceList[claimListKey])
	if err != nil {
		return draft{}, fmt.Errorf("archiving the results of operations: %w", err)
	}
	defer func() { err = errors.Join(err, overlay.Close()) }()
	if made.Items == 0 {
		d.addArchiveResult(made, 0)
		return d, nil
	}
	merged, digest, err := j.mergeOverlay(ctx, attempt, req, d, overlay)
	switch {
	case errors.Is(err, archive.ErrAmbiguous), errors.Is(err, archive.ErrLimitExceeded):
		// The first archive may contain hours of work, and it is valid.
		logr.FromContextOrDiscard(ctx).Error(err, "Skipping the results of operations")
		d.addArchiveResult(ArchiveResult{Results: made.Results}, 0)
		why := "the API server prefers other versions than when the objects were archived; back up again"
		if errors.Is(err, archive.ErrLimitExceeded) {
			why = "no Restore would accept an archive that includes them (" + err.Error() + "); back up fewer objects, or raise --max-archive-size"
		}
		d.addError(results.Subject{}, results.ReasonNotBackedUp, "the results of operations are missing from this backup: "+why)
		return d, nil
	case err != nil:
		return draft{}, fmt.Errorf("adding the results of operations to the archive: %w", err)
	}
	logr.FromContextOrDiscard(ctx).Info("Added the results of operations to the archive",
		"added", merged.Added, "replaced", merged.Replaced)
	d.addArchiveResult(made, merged.Added)
	d.Contents, d.Merged = digest, true
	return d, storeDraft(ctx, attempt, storage.MergedDraft, d)
}

// archiveOverlay archives objects into a scratch file.
func (j *Runner) archiveOverlay(ctx context.Context, req Request, phase string, only []itemaction.RelatedItem, archivedClaims []string) (made ArchiveResult, overlay *archive.Spool, err error) {
	// These actions were called for the objects when they started the ended operations.
	req.ItemActions = slices.DeleteFunc(slices.Clone(req.ItemActions), func(s pluginclient.BackupItemActionSpec) bool { return s.Kind == asyncActionKind })
	actions, err := j.newItemActions(req, phase)
	if err != nil {
		return ArchiveResult{}, nil, err
	}
	err = pipeConcurrently(ctx, func(ctx context.Context, w io.Writer) error {
		var err error
		made, err = j.Engine.WriteArchive(ctx, ArchiveRequest{
			Selection: req.Selection, AllVersions: req.AllVersions, StartTime: req.Start, Actions: actions, OnlyItems: only,
			ArchivedClaims: archivedClaims, RequireCaptured: req.RequireCaptured,
		}, w)
		return err
	}, func(ctx context.Context, r io.Reader) error {
		var err error
		overlay, err = archive.NewSpool(ctx, r, archive.SpoolOptions{Scratch: j.Scratch, Limits: j.Limits})
		return err
	})
	if err != nil && overlay != nil {
		err = errors.Join(err, overlay.Close())
	}
	return made, overlay, err
}

// mergeOverlay streams the archive from the store and, merged with the overlay, back under
// another name.
func (j *Runner) mergeOverlay(ctx context.Context, attempt *storage.Attempt, req Request, d draft, overlay *archive.Spool) (merged archive.MergeResult, digest storage.Digest, err error) {
	err = pipeConcurrently(ctx, func(ctx context.Context, w io.Writer) (err error) {
		base, err := attempt.GetFile(ctx, storage.Contents)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, base.Close()) }()
		merged, err = archive.Merge(ctx, w, base, overlay, archive.MergeOptions{
			ModTime: req.Start, Limits: j.Limits, SHA256: d.Contents.SHA256, Size: d.Contents.Size,
		})
		return err
	}, func(ctx context.Context, r io.Reader) error {
		var err error
		digest, err = attempt.PutFile(ctx, storage.MergedContents, r)
		return err
	})
	return merged, digest, err
}

// replaceContents replaces the archive with the one of the draft. A store that fails
// halfway may leave anything there, but the new archive is still stored beside it.
func replaceContents(ctx context.Context, attempt *storage.Attempt, req Request, d draft) (err error) {
	merged, err := attempt.GetFile(ctx, storage.MergedContents)
	if err != nil {
		return fmt.Errorf("replacing the archive: %w", err)
	}
	defer func() { err = errors.Join(err, merged.Close()) }()
	digest, err := attempt.PutContents(ctx, merged)
	switch {
	case err != nil:
		return fmt.Errorf("replacing the archive: %w", err)
	case digest != d.Contents:
		return fmt.Errorf("%w: the archive with the results of operations is not the stored one of backup %q; make another backup", ErrNoDraft, req.Name)
	}
	return nil
}
