// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	itemplugin "github.com/grapnel-dev/grapnel/internal/itemaction/plugin"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// asyncKind is the kind of actions that do nothing but start operations.
const asyncKind = "AsyncBackupItemAction"

// postItems returns the objects that operations which completed asked for, each once.
func postItems(ended []velero.Operation) []itemaction.Ref {
	var out []itemaction.Ref
	seen := map[velero.ResourceIdentifier]bool{}
	for _, operation := range ended {
		if operation.Phase != velero.OperationCompleted {
			continue
		}
		for _, item := range operation.PostItems {
			if !seen[item] {
				seen[item] = true
				out = append(out, itemaction.Ref{Resource: item.GroupResource, Namespace: item.Namespace, Name: item.Name})
			}
		}
	}
	return out
}

// again archives objects that are new or have changed since the archive was made, and
// stores the whole archive with them beside the first. The draft that it returns is
// stored, too, if there is such an archive.
func (j *Job) again(
	ctx context.Context, store *backupstore.Store, req Request, d draft, phase string, only []itemaction.Ref,
) (_ draft, err error) {
	made, overlay, err := j.overlay(ctx, req, phase, only)
	if err != nil {
		return draft{}, fmt.Errorf("archiving what operations left behind: %w", err)
	}
	defer func() { err = errors.Join(err, overlay.Close()) }()
	if made.Items == 0 {
		d.add(made, 0)
		return d, nil
	}
	merged, digest, err := merge(ctx, store, req, d, overlay)
	switch {
	case errors.Is(err, archive.ErrAmbiguous):
		// Hours of work are in the first archive, and it is good.
		logr.FromContextOrDiscard(ctx).Error(err, "Leaving out what operations left behind")
		d.add(backup.Result{Results: made.Results}, 0)
		d.failRun("what operations left behind is missing from this backup: " +
			"the API server prefers other versions than when the objects were archived; back up again")
		return d, nil
	case err != nil:
		return draft{}, fmt.Errorf("adding what operations left behind to the archive: %w", err)
	}
	logr.FromContextOrDiscard(ctx).Info("Added what operations left behind to the archive",
		"added", merged.Added, "replaced", merged.Replaced)
	d.add(made, merged.Added)
	d.Contents, d.Merged = digest, true
	return d, storeDraft(ctx, store, req, backupstore.MergedDraft, d)
}

// overlay has objects archived, and keeps them in a scratch file.
func (j *Job) overlay(ctx context.Context, req Request, phase string, only []itemaction.Ref) (made backup.Result, overlay *archive.Spool, err error) {
	// They said all about the objects when they started what has ended.
	req.ItemActions = slices.DeleteFunc(slices.Clone(req.ItemActions), func(s itemplugin.Spec) bool { return s.Kind == asyncKind })
	actions, err := j.actions(req, phase)
	if err != nil {
		return backup.Result{}, nil, err
	}
	err = stream(ctx, func(ctx context.Context, w io.Writer) error {
		var err error
		made, err = j.Engine.Run(ctx, backup.Request{
			Selection: req.Selection, AllVersions: req.AllVersions, StartTime: req.Start, Actions: actions, Only: only,
		}, w)
		return err
	}, func(ctx context.Context, r io.Reader) error {
		var err error
		overlay, err = archive.NewSpool(ctx, r, archive.SpoolOptions{Dir: j.ScratchDir})
		return err
	})
	if err != nil && overlay != nil {
		err = errors.Join(err, overlay.Close())
	}
	return made, overlay, err
}

// merge streams the archive out of the store and, with the overlay in it, back under
// another name.
func merge(ctx context.Context, store *backupstore.Store, req Request, d draft, overlay *archive.Spool) (merged archive.Merged, digest backupstore.Digest, err error) {
	err = stream(ctx, func(ctx context.Context, w io.Writer) (err error) {
		base, err := store.Get(ctx, req.Name, backupstore.Contents)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, base.Close()) }()
		merged, err = archive.Merge(ctx, w, base, overlay, archive.MergeOptions{
			ModTime: req.Start, SHA256: d.Contents.SHA256, Size: d.Contents.Size,
		})
		return err
	}, func(ctx context.Context, r io.Reader) error {
		var err error
		digest, err = store.PutFile(ctx, req.Name, req.UID, backupstore.MergedContents, r)
		return err
	})
	return merged, digest, err
}

// replaceContents puts the archive that the draft speaks of in its place. A store that
// fails halfway may leave anything there, and the archive is still beside it.
func replaceContents(ctx context.Context, store *backupstore.Store, req Request, d draft) (err error) {
	merged, err := store.Get(ctx, req.Name, backupstore.MergedContents)
	if err != nil {
		return fmt.Errorf("replacing the archive: %w", err)
	}
	defer func() { err = errors.Join(err, merged.Close()) }()
	digest, err := store.PutContents(ctx, req.Name, req.UID, merged)
	switch {
	case err != nil:
		return fmt.Errorf("replacing the archive: %w", err)
	case digest != d.Contents:
		return fmt.Errorf("%w: the archive with what operations left behind is not what was stored of backup %q; make another backup", ErrNoDraft, req.Name)
	}
	return nil
}
