// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// Finalize stores the outcome of the operations that the actions of a restored backup had
// started: in the results, as an error of its object for each that did not complete, and in
// Velero's file of operations. It returns the number of these errors. It may be called
// again, after success or an error: it replaces its previous results. It also stores what
// Restore could not store. The error matches ErrResultsUnreadable if the results of the
// restore are permanently unreadable.
func (j *Runner) Finalize(ctx context.Context, store *storage.Store, req RunRequest, ended []velero.Operation) (int, error) {
	log := j.Logs.Logger(req.logRun(), runlog.Main)
	ctx = logr.NewContext(ctx, log)
	what, err := j.pendingOrStoredReport(ctx, store, req)
	if err != nil {
		return 0, fmt.Errorf("storing the outcome of operations: %w", err)
	}
	failures := OperationFailures(ended, req.Operations)
	what.results.addOperationErrors(failures)
	log.Info("Storing the outcome of operations", "operations", len(ended), "failed", failures.ErrorCount)
	logFinishedOperations(log, ended)
	if err = putRestoreFile(ctx, store, req.Name, storage.RestoreResults, what.results.encodeJSON); err == nil && !what.fromStore {
		err = putRestoreFile(ctx, store, req.Name, storage.RestoreResourceList, what.resourceListWriter)
	}
	if err == nil {
		err = putRestoreFile(ctx, store, req.Name, storage.RestoreItemOperations, operationsWriter(req, ended))
	}
	if err == nil {
		err = j.storeCompleteLog(ctx, store, req)
	}
	if err != nil {
		return 0, fmt.Errorf("storing the outcome of operations: %w", err)
	}
	j.removePendingReport(req.UID) // the store now has a newer report
	return failures.ErrorCount, nil
}

// pendingOrStoredReport returns the outcome of the objects: the local report that could not
// be stored, or otherwise that in the store.
func (j *Runner) pendingOrStoredReport(ctx context.Context, store *storage.Store, req RunRequest) (itemReport, error) {
	what, err := j.readPendingReport(req.UID)
	if err == nil && what.resourceListWriter != nil {
		what.results.Restore.UID = req.UID
		what.results.Warnings.AddNew(storedLateWarning)
		return what, nil
	}
	found, err := j.readStoredResults(ctx, store, req)
	return itemReport{results: found, fromStore: true}, err
}

// OperationFailures returns the errors that Finalize adds to the results: one for each object whose
// operation did not complete, and one if the outcome of some of those that were started is unknown.
func OperationFailures(ended []velero.Operation, started int) results.Results {
	var collected results.Collector
	if lost := started - len(ended); lost > 0 {
		collected.Error(results.Subject{}, results.ReasonOperationLost, fmt.Errorf("%d of %d operations were deleted without their finalizer; their outcome is unknown: "+
			"check the outcome in the system of the plugin", lost, lost+len(ended)))
	}
	for _, op := range ended {
		if err := op.Failure(); err != nil {
			collected.Error(results.About(op.Object.GroupResource, op.Object.Namespace, op.Object.Name), results.ReasonOperationFailed, fmt.Errorf("%s: %w", describeObject(op.Object), err))
		}
	}
	return collected.Results()
}

// logFinishedOperations logs the outcome of each operation in the log of the restore.
func logFinishedOperations(log logr.Logger, ended []velero.Operation) {
	for _, op := range ended {
		log.Info("An operation ended", "action", op.Action, "plugin", op.Plugin, "operation", fmt.Sprintf("%.100q", op.ID),
			"item", describeObject(op.Object), "phase", op.Phase, "message", op.Message)
	}
}

// describeObject names an object in the same way as the engine.
func describeObject(object velero.ResourceIdentifier) string {
	key := object.Name
	if object.Namespace != "" {
		key = object.Namespace + "/" + key
	}
	return fmt.Sprintf("%s %q", object.GroupResource, key)
}

// addOperationErrors adds the errors of operations, and replaces those that were added
// before.
func (r *resultsFile) addOperationErrors(failures results.Results) {
	if r.BeforeOperations != nil {
		r.Errors = *r.BeforeOperations
	}
	r.BeforeOperations = nil
	if failures.ErrorCount == 0 {
		return
	}
	before := r.Errors
	r.BeforeOperations = &before
	r.Errors = slices.Concat(before, failures.Errors)
}
