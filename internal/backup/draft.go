// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// draftVersion is the version of the stored draft.
const draftVersion = 1

// ErrNoDraft means that there is nothing to finalize: the draft of the backup is missing,
// damaged or belongs to another attempt. A retry does not help.
var ErrNoDraft = errors.New("the archive cannot be completed")

// draft is the state of a backup whose archive is stored. It is stored while operations are
// in progress. Copies of a draft share its fields, so fields are replaced and not modified.
type draft struct {
	Version   int    `json:"version"`
	BackupUID string `json:"backupUID"`
	Attempt   int32  `json:"attempt"`
	// Operations is the number of recorded operations.
	Operations int `json:"operations"`
	// Contents is the digest of the archive. Merged reports that it is the archive that
	// will replace the first one.
	Contents storage.Digest `json:"contents"`
	Merged   bool           `json:"merged,omitempty"`
	// ETag is the ETag of the archive when it was stored.
	ETag string `json:"etag,omitempty"`

	Items int `json:"items"`
	// Results: the counts are separate fields, as its JSON does not contain them.
	Results      results.Results     `json:"results"`
	Warnings     int                 `json:"warnings"`
	Errors       int                 `json:"errors"`
	ResourceList map[string][]string `json:"resourceList"`
	Actions      map[string][]string `json:"actions,omitempty"`
	Labels       map[string]string   `json:"labels,omitempty"`
	// MissingNamespaces were included by name and do not exist.
	MissingNamespaces []string `json:"missingNamespaces,omitempty"`
	// Volumes counts the claims.
	Volumes VolumeCounts `json:"volumes"`
}

func newDraft(req Request, made ArchiveResult, digest storage.Digest) draft {
	return draft{
		Version: draftVersion, BackupUID: req.UID, Attempt: req.Attempt, Operations: len(made.Operations), Contents: digest,
		Items: made.Items, Results: made.Results, Warnings: made.Results.WarningCount, Errors: made.Results.ErrorCount,
		ResourceList: made.ResourceList, Actions: made.Actions, Labels: made.Labels,
		MissingNamespaces: made.MissingNamespaces, Volumes: made.Volumes,
	}
}

// storePendingBackup stores the draft of a backup with operations instead of its manifests.
func (j *Runner) storePendingBackup(ctx context.Context, attempt *storage.Attempt, req Request, d draft) (Result, error) {
	result, _ := j.resultForDraft(req, d)
	result.Operations = d.Operations
	logr.FromContextOrDiscard(ctx).Info("Waiting for operations", "operations", d.Operations, "items", d.Items,
		"warnings", result.Warnings, "errors", result.Errors)
	if err := storeDraft(ctx, attempt, storage.Draft, d); err != nil {
		return Result{}, err
	}
	// Users can read the log while the operations are in progress.
	if _, err := j.storeRunLog(req, runlog.Main, newLogUploader(ctx, attempt)); err != nil {
		return Result{}, err
	}
	return result, nil
}

func storeDraft(ctx context.Context, attempt *storage.Attempt, file storage.File, d draft) error {
	if _, err := attempt.PutJSON(ctx, file, d); err != nil {
		return fmt.Errorf("storing the draft of the backup: %w", err)
	}
	return nil
}

// readDraft returns the latest draft of this attempt. The error is ErrNoDraft if there is
// no usable one.
func readDraft(ctx context.Context, store *storage.Store, req Request) (draft, error) {
	var first, merged draft
	if err := store.GetJSON(ctx, req.Name, storage.Draft, &first); err != nil {
		return draft{}, toDraftError(err, req.Name)
	}
	if err := first.checkRequest(req); err != nil {
		return draft{}, err
	}
	err := store.GetJSON(ctx, req.Name, storage.MergedDraft, &merged)
	if errors.Is(err, objectstore.ErrNotExist) || errors.As(err, new(*storage.CorruptError)) {
		err, merged = nil, draft{}
	}
	if err == nil && merged.checkRequest(req) != nil {
		// There is no second draft, or it is incomplete or from an earlier attempt. In
		// these cases the first archive is unchanged.
		merged = first
	}
	return merged, err
}

// toDraftError adds a hint for the case that there is nothing to continue with.
func toDraftError(err error, name string) error {
	switch {
	case errors.Is(err, objectstore.ErrNotExist):
		return fmt.Errorf("%w: the draft of backup %q is missing in its storage location; make another backup", ErrNoDraft, name)
	case errors.As(err, new(*storage.CorruptError)):
		return fmt.Errorf("%w: %w; make another backup", ErrNoDraft, err)
	}
	return err
}

// checkRequest returns ErrNoDraft if the draft belongs to another backup or attempt.
func (d *draft) checkRequest(req Request) error {
	switch {
	case d.Version != draftVersion:
		return fmt.Errorf("%w: the draft of backup %q has version %d, and only version %d is supported; use the operator that wrote it, or make another backup",
			ErrNoDraft, req.Name, d.Version, draftVersion)
	case d.BackupUID != req.UID || d.Attempt != req.Attempt:
		return fmt.Errorf("%w: the draft of backup %q is of attempt %d of the Backup with UID %q, and not of attempt %d of %q; make another backup",
			ErrNoDraft, req.Name, d.Attempt, d.BackupUID, req.Attempt, req.UID)
	}
	return nil
}

// removeDraft removes the draft. Leftovers are removed with the backup.
func removeDraft(ctx context.Context, store *storage.Store, req Request) {
	if err := store.RemoveDraft(ctx, req.Name, req.UID); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Removing the draft of the backup failed; it may use space")
	}
}

// addRunWarnings adds warnings about the run as a whole.
func (d *draft) addRunWarnings(reason string, warnings []string) {
	d.Results.Warnings = slices.Clone(d.Results.Warnings)
	for _, warning := range warnings {
		d.Warnings += d.Results.Warnings.AddNew(results.Problem{Reason: reason, Message: warning})
	}
}

// addArchiveResult adds the result of a second archive, in which added objects are new.
func (d *draft) addArchiveResult(made ArchiveResult, added int) {
	d.Items += added
	// An object that is archived again often has the same problems.
	d.Warnings += d.Results.Warnings.AddNew(made.Results.Warnings...)
	d.Errors += d.Results.Errors.AddNew(made.Results.Errors...)
	d.Volumes.Claims += made.Volumes.Claims
	d.Volumes.Skipped += made.Volumes.Skipped
	// An object that is archived again counts again, because its first size is unknown.
	d.Results.Objects.Add(made.Results.Objects...)
	d.ResourceList = mergeNameLists(d.ResourceList, made.ResourceList)
	for kind := range made.ResourceList {
		slices.Sort(d.ResourceList[kind])
	}
	d.Actions = mergeNameLists(d.Actions, made.Actions)
	labels := maps.Clone(made.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, d.Labels) // the first value takes precedence
	d.Labels = labels
}

// addError records an error.
func (d *draft) addError(about results.Subject, reason, text string) {
	d.Errors += d.Results.Errors.AddNew(results.Problem{Subject: about, Reason: reason, Message: text})
}
