// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// Finalize stores how the operations ended that the actions of a restored backup had
// started: among the results, as an error of its object for each that did not complete,
// and in Velero's file of operations. It returns how many errors that are. It may be
// called again, with or without an error: what it said before is replaced. The error matches
// ErrNoReport if the results of the restore cannot be read, whatever is done.
func (j *Job) Finalize(ctx context.Context, store *backupstore.Store, req Request, ended []velero.Operation) (int, error) {
	log := j.Logs.Logger(req.UID, runlog.Main)
	ctx = logr.NewContext(ctx, log)
	what, err := j.stored(ctx, store, req)
	if err != nil {
		return 0, fmt.Errorf("storing how operations ended: %w", err)
	}
	failures := failuresOf(ended, req.Operations-len(ended))
	what.addOperations(failures)
	log.Info("Storing how operations ended", "operations", len(ended), "failed", failures.ErrorCount)
	logOperations(log, ended)
	err = put(ctx, store, req.Name, backupstore.RestoreResults, what.write)
	if err == nil {
		err = put(ctx, store, req.Name, backupstore.RestoreItemOperations, writeOperations(req, ended))
	}
	if err == nil {
		err = j.storeWholeLog(ctx, store, req)
	}
	if err != nil {
		return 0, fmt.Errorf("storing how operations ended: %w", err)
	}
	return failures.ErrorCount, nil
}

// failuresOf returns the errors of the objects whose operations did not complete, and one
// if the end of some is not known at all.
func failuresOf(ended []velero.Operation, lost int) results.Results {
	var collected results.Collector
	if lost > 0 {
		collected.Error(results.Run(), fmt.Errorf("%d of %d operations were removed by force, and nobody knows how they ended: "+
			"look yourself what became of the work of the plugin", lost, lost+len(ended)))
	}
	for _, op := range ended {
		if err := op.Failure(); err != nil {
			collected.Error(results.Object(op.Object.Namespace), fmt.Errorf("%s: %w", about(op.Object), err))
		}
	}
	return collected.Results()
}

// logOperations says in the log of the restore how each operation ended.
func logOperations(log logr.Logger, ended []velero.Operation) {
	for _, op := range ended {
		log.Info("An operation ended", "action", op.Action, "plugin", op.Plugin, "operation", fmt.Sprintf("%.100q", op.ID),
			"item", about(op.Object), "phase", op.Phase, "message", op.Message)
	}
}

// about names an object as the engine does.
func about(object velero.ResourceIdentifier) string {
	key := object.Name
	if object.Namespace != "" {
		key = object.Namespace + "/" + key
	}
	return fmt.Sprintf("%s %q", object.GroupResource, key)
}

// addOperations adds the errors of operations, in the place of those that were added
// before.
func (r *report) addOperations(failures results.Results) {
	if r.BeforeOperations != nil {
		r.Errors = *r.BeforeOperations
	}
	r.BeforeOperations = nil
	if failures.ErrorCount == 0 {
		return
	}
	before := r.Errors
	r.BeforeOperations = &before
	r.Errors = results.Messages{
		Velero:     slices.Concat(before.Velero, failures.Errors.Velero),
		Cluster:    slices.Concat(before.Cluster, failures.Errors.Cluster),
		Namespaces: map[string][]string{},
	}
	for _, messages := range []map[string][]string{before.Namespaces, failures.Errors.Namespaces} {
		for namespace, added := range messages {
			r.Errors.Namespaces[namespace] = slices.Concat(r.Errors.Namespaces[namespace], added)
		}
	}
}
