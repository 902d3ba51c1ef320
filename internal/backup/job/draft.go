// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/runlog"
)

// draftVersion is the version of the file that keep writes.
const draftVersion = 1

// ErrNoDraft means that there is nothing that Finalize could complete: the draft of the
// backup is missing, damaged or another attempt's. Calling it again is of no use.
var ErrNoDraft = errors.New("the archive cannot be completed")

// draft is what is known of a backup whose archive is stored. While operations go on it
// is kept in the store. A field of a draft is shared with its copies, so it is replaced
// and not changed.
type draft struct {
	Version   int    `json:"version"`
	BackupUID string `json:"backupUID"`
	Attempt   int32  `json:"attempt"`
	// Operations is how many were recorded.
	Operations int `json:"operations"`
	// Contents is the digest of the archive. Merged says that it is the one that is to
	// take the place of the first.
	Contents backupstore.Digest `json:"contents"`
	Merged   bool               `json:"merged,omitempty"`
	// ETag is that of the archive when it was stored.
	ETag string `json:"etag,omitempty"`

	Items int `json:"items"`
	// Results have the counts beside them, as their JSON has none.
	Results      results.Results     `json:"results"`
	Warnings     int                 `json:"warnings"`
	Errors       int                 `json:"errors"`
	ResourceList map[string][]string `json:"resourceList"`
	Actions      map[string][]string `json:"actions,omitempty"`
	Labels       map[string]string   `json:"labels,omitempty"`
	// MissingNamespaces were included by name and do not exist.
	MissingNamespaces []string `json:"missingNamespaces,omitempty"`
}

func newDraft(req Request, made backup.ArchiveResult, digest backupstore.Digest) draft {
	return draft{
		Version: draftVersion, BackupUID: req.UID, Attempt: req.Attempt, Operations: len(made.Operations), Contents: digest,
		Items: made.Items, Results: made.Results, Warnings: made.Results.WarningCount, Errors: made.Results.ErrorCount,
		ResourceList: made.ResourceList, Actions: made.Actions, Labels: made.Labels,
		MissingNamespaces: made.MissingNamespaces,
	}
}

// storePendingBackup stores the draft of a backup with operations in the place of its manifests.
func (j *Runner) storePendingBackup(ctx context.Context, attempt *backupstore.Attempt, req Request, d draft) (Result, error) {
	result, _ := j.resultForDraft(req, d)
	result.Operations = d.Operations
	logr.FromContextOrDiscard(ctx).Info("Waiting for operations", "operations", d.Operations, "items", d.Items,
		"warnings", result.Warnings, "errors", result.Errors)
	if err := storeDraft(ctx, attempt, backupstore.Draft, d); err != nil {
		return Result{}, err
	}
	// So that people can look at it while the operations go on.
	if _, err := j.storeRunLog(req, runlog.Main, newLogUploader(ctx, attempt)); err != nil {
		return Result{}, err
	}
	return result, nil
}

func storeDraft(ctx context.Context, attempt *backupstore.Attempt, file backupstore.File, d draft) error {
	if _, err := attempt.PutJSON(ctx, file, d); err != nil {
		return fmt.Errorf("storing the draft of the backup: %w", err)
	}
	return nil
}

// readDraft returns the draft of this attempt, as far as it got. The error is ErrNoDraft
// if there is none that can be used.
func readDraft(ctx context.Context, store *backupstore.Store, req Request) (draft, error) {
	var first, merged draft
	if err := store.GetDraft(ctx, req.Name, backupstore.Draft, &first); err != nil {
		return draft{}, toDraftError(err, req.Name)
	}
	if err := first.checkRequest(req); err != nil {
		return draft{}, err
	}
	err := store.GetDraft(ctx, req.Name, backupstore.MergedDraft, &merged)
	if errors.Is(err, objectstore.ErrNotExist) || errors.As(err, new(*backupstore.CorruptError)) {
		err, merged = nil, draft{}
	}
	if err == nil && merged.checkRequest(req) != nil {
		// There is none, half of one, or one of an earlier attempt. The first archive is
		// untouched then.
		merged = first
	}
	return merged, err
}

// toDraftError says what to do where there is nothing to go on with.
func toDraftError(err error, name string) error {
	switch {
	case errors.Is(err, objectstore.ErrNotExist):
		return fmt.Errorf("%w: the draft of backup %q is missing in its storage location; make another backup", ErrNoDraft, name)
	case errors.As(err, new(*backupstore.CorruptError)):
		return fmt.Errorf("%w: %w; make another backup", ErrNoDraft, err)
	}
	return err
}

// checkRequest returns ErrNoDraft if the draft is another's.
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

// removeDraft removes the draft. What stays is removed with the backup.
func removeDraft(ctx context.Context, store *backupstore.Store, req Request) {
	if err := store.RemoveDraft(ctx, req.Name, req.UID); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Removing the draft of the backup failed; it may use space")
	}
}

// addRunWarnings adds warnings that are about the run as a whole.
func (d *draft) addRunWarnings(warnings []string) {
	d.Results.Warnings.Velero = slices.Concat(d.Results.Warnings.Velero, warnings)
	d.Warnings += len(warnings)
}

// addArchiveResult takes what was archived again: of the objects only added were not there before.
func (d *draft) addArchiveResult(made backup.ArchiveResult, added int) {
	d.Items += added
	warnings, errs := 0, 0
	d.Results.Warnings, warnings = joinMessages(d.Results.Warnings, made.Results.Warnings)
	d.Results.Errors, errs = joinMessages(d.Results.Errors, made.Results.Errors)
	d.Warnings, d.Errors = d.Warnings+warnings, d.Errors+errs
	d.ResourceList = mergeNameLists(d.ResourceList, made.ResourceList)
	for kind := range made.ResourceList {
		slices.Sort(d.ResourceList[kind])
	}
	d.Actions = mergeNameLists(d.Actions, made.Actions)
	labels := maps.Clone(made.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, d.Labels) // the first value counts
	d.Labels = labels
}

// addRunError records an error of the run as a whole.
func (d *draft) addRunError(text string) {
	var n int
	d.Results.Errors, n = joinMessages(d.Results.Errors, results.Messages{Velero: []string{text}})
	d.Errors += n
}

// addItemError records an error of an object, or of a cluster-scoped one if there is no
// namespace.
func (d *draft) addItemError(namespace, text string) {
	more := results.Messages{Cluster: []string{text}}
	if namespace != "" {
		more = results.Messages{Namespaces: map[string][]string{namespace: {text}}}
	}
	var n int
	d.Results.Errors, n = joinMessages(d.Results.Errors, more)
	d.Errors += n
}
