// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// Finalize commits a backup that Archive stored, when all of its operations have ended. It
// archives the objects that completed operations requested, and the claims of failed ones again,
// records failed operations as errors of their objects, and stores everything, the manifests last.
//
// After an error there is no backup, and Finalize may be called again with the same
// operations until it succeeds; ErrNoDraft means that a retry does not help. It does not
// change a backup that is already complete.
func (j *Runner) Finalize(ctx context.Context, store *storage.Store, req Request, ended []velero.Operation) (Result, error) {
	log := j.Logs.Logger(req.logRun(), runlog.Main)
	ctx = logr.NewContext(ctx, log)
	attempt, done, err := j.beginAttempt(ctx, store, req)
	if attempt == nil {
		if err == nil {
			removeDraft(ctx, store, req)
		}
		return done, err
	}
	log.Info("Completing the archive", "operations", len(ended))
	result, err := j.finalizeDraft(ctx, store, attempt, req, ended)
	if err != nil {
		result, err = j.resultIfCommitted(ctx, store, req, err)
	}
	if err != nil {
		log.Error(err, "Completing the archive failed")
		return Result{}, err
	}
	removeDraft(ctx, store, req)
	return result, nil
}

func (j *Runner) finalizeDraft(ctx context.Context, store *storage.Store, attempt *storage.Attempt, req Request, ended []velero.Operation) (Result, error) {
	d, err := readDraft(ctx, store, req)
	if err != nil {
		return Result{}, err
	}
	if refs := listPostOperationItems(ended); len(refs) > 0 && !d.Merged {
		if d, err = j.archivePostOperationItems(ctx, attempt, req, d, phaseForDraft(d, ended), refs); err != nil {
			return Result{}, err
		}
	}
	if d.Merged {
		if err := replaceContents(ctx, attempt, req, d); err != nil {
			return Result{}, err
		}
		d.ETag = attempt.ETag(storage.Contents)
	}
	d.recordFailedOperations(ctx, ended)
	d.recordOperationWarnings(ended)
	result, err := j.storeAndCommit(ctx, attempt, req, d, ended)
	if errors.Is(err, storage.ErrOverwritten) && !d.Merged {
		err = fmt.Errorf("%w: %w; make another backup", ErrNoDraft, err)
	}
	return result, err
}

// recordFailedOperations records failed operations as errors of their objects, which Velero
// does not do.
func (d *draft) recordFailedOperations(ctx context.Context, ended []velero.Operation) {
	for _, operation := range ended {
		failure := operation.Failure()
		if failure == nil {
			continue
		}
		key := operation.Object.Name
		if operation.Object.Namespace != "" {
			key = operation.Object.Namespace + "/" + key
		}
		text := fmt.Sprintf("%s %q: %s", operation.Object.GroupResource, key, failure)
		d.addError(results.About(operation.Object.GroupResource, operation.Object.Namespace, operation.Object.Name), results.ReasonOperationFailed, text)
		logr.FromContextOrDiscard(ctx).Info("An operation failed", "reason", text)
	}
	if lost := d.Operations - len(ended); lost > 0 {
		d.addError(results.Subject{}, results.ReasonOperationLost, fmt.Sprintf("%d of the %d operations that item actions started are no longer known: "+
			"check their outcome in the systems of the plugins", lost, d.Operations))
	}
}

// recordOperationWarnings records the warnings of completed operations, once for all that have the same one in a
// namespace.
func (d *draft) recordOperationWarnings(ended []velero.Operation) {
	d.Results.Warnings = slices.Clone(d.Results.Warnings)
	for _, operation := range ended {
		if operation.Phase != velero.OperationCompleted || operation.Warning == "" {
			continue
		}
		about := results.About(operation.Object.GroupResource, operation.Object.Namespace, "")
		message := fmt.Sprintf("%s of namespace %q: %s", operation.Object.GroupResource, operation.Object.Namespace, operation.Warning)
		if operation.Object.Namespace == "" {
			message = fmt.Sprintf("%s: %s", operation.Object.GroupResource, operation.Warning)
		}
		d.Warnings += d.Results.Warnings.AddNew(results.Problem{Subject: about, Reason: results.ReasonOperationWarning, Message: message})
	}
}

// phaseForDraft returns the phase of the backup for item actions.
func phaseForDraft(d draft, ended []velero.Operation) string {
	for _, operation := range ended {
		if operation.Failure() != nil {
			return velero.PhaseFinalizingPartiallyFailed
		}
	}
	if d.Errors > 0 {
		return velero.PhaseFinalizingPartiallyFailed
	}
	return velero.PhaseFinalizing
}
