// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// Finalize makes a backup of what Archive stored, when all of its operations have ended:
// it archives the objects that those which completed asked for, records those which did
// not end well as errors of their objects, and stores everything, the manifests last.
//
// With an error there is no backup, and Finalize may be called again until it succeeds,
// with the same operations; ErrNoDraft means that this is of no use. A backup that is
// complete already is left as it is.
func (j *Job) Finalize(ctx context.Context, store *backupstore.Store, req Request, ended []velero.Operation) (Result, error) {
	log := j.Logs.Logger(req.UID, runlog.Main)
	ctx = logr.NewContext(ctx, log)
	if done, err := j.Earlier(ctx, store, req); !errors.Is(err, errNotMade) {
		if err == nil {
			tidy(ctx, store, req)
		}
		return done, err
	}
	log.Info("Completing the archive", "backup", req.Namespace+"/"+req.Name, "operations", len(ended))
	result, err := j.finalize(ctx, store, req, ended)
	if err != nil {
		log.Error(err, "Completing the archive failed")
		return Result{}, err
	}
	tidy(ctx, store, req)
	return result, nil
}

func (j *Job) finalize(ctx context.Context, store *backupstore.Store, req Request, ended []velero.Operation) (Result, error) {
	d, err := readDraft(ctx, store, req)
	if err != nil {
		return Result{}, err
	}
	if refs := postItems(ended); len(refs) > 0 && !d.Merged {
		if d, err = j.again(ctx, store, req, d, phaseOf(d, ended), refs); err != nil {
			return Result{}, err
		}
	}
	if d.Merged {
		if err := replaceContents(ctx, store, req, d); err != nil {
			return Result{}, err
		}
	}
	d.blame(ctx, ended)
	return j.complete(ctx, store, req, d, ended)
}

// blame records the operations that did not end well as errors of their objects, which
// Velero does not.
func (d *draft) blame(ctx context.Context, ended []velero.Operation) {
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
		d.fail(operation.Object.Namespace, text)
		logr.FromContextOrDiscard(ctx).Info("An operation did not end well", "reason", text)
	}
	if lost := d.Operations - len(ended); lost > 0 {
		d.failRun(fmt.Sprintf("%d of the %d operations that item actions started are not known any more: "+
			"look in what the plugins work with how they ended", lost, d.Operations))
	}
}

// phaseOf returns the phase of the backup that item actions see.
func phaseOf(d draft, ended []velero.Operation) string {
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
