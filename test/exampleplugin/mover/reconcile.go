// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/grapnel-dev/grapnel/test/exampleplugin/datamove"
)

// mover moves one file of one DataMove per reconciliation, so that it can be watched and
// canceled.
type mover struct {
	data, store string
	pause       time.Duration
	client      client.Client
}

func (m *mover) setupWithManager(manager ctrl.Manager) error {
	m.client = manager.GetClient()
	return ctrl.NewControllerManagedBy(manager).
		// Its own updates of the status need no reconciliation.
		For(&datamove.DataMove{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(m)
}

// Reconcile does the next step of a DataMove. All state is in the DataMove and on disk.
func (m *mover) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	move := &datamove.DataMove{}
	if err := m.client.Get(ctx, req.NamespacedName, move); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if move.IsFinished() {
		return ctrl.Result{}, nil
	}
	status, err := m.advanceDataMove(move)
	if err != nil {
		status.Phase, status.Message = datamove.Failed, err.Error()
	}
	move.Status = status
	// A conflict means that the spec has changed in the meantime: the next reconciliation
	// handles it.
	if err := m.client.Status().Update(ctx, move); err != nil {
		return ctrl.Result{}, err
	}
	if move.IsFinished() {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: m.pause}, nil
}

// advanceDataMove does the next step and returns the status after it.
func (m *mover) advanceDataMove(move *datamove.DataMove) (datamove.Status, error) {
	status := move.Status
	target := string(move.UID)
	if err := os.MkdirAll(m.store, 0o700); err != nil {
		return status, err
	}
	store, err := os.OpenRoot(m.store)
	if err != nil {
		return status, err
	}
	defer func() { _ = store.Close() }()
	if status.Operation != move.Spec.Operation || move.Spec.Cancel {
		// Files that an earlier operation moved may be outdated.
		status = datamove.Status{Operation: move.Spec.Operation, Phase: datamove.Running, Message: "beginning"}
		if move.Spec.Cancel {
			status.Phase, status.Message = datamove.Cancelled, "cancelled; the moved files were removed"
		}
		return status, store.RemoveAll(target)
	}
	data, err := os.OpenRoot(m.data)
	if err != nil {
		return status, err
	}
	defer func() { _ = data.Close() }()
	return moveNextFile(status, data, path.Join(move.Namespace, move.Spec.Claim), store, target)
}

// moveNextFile moves the first file that is not moved yet.
func moveNextFile(status datamove.Status, data *os.Root, source string, store *os.Root, target string) (datamove.Status, error) {
	status.Files, status.Total = 0, 0
	missing := ""
	err := fs.WalkDir(data.FS(), source, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		status.Total++
		name = name[len(source)+1:]
		_, err = store.Stat(path.Join(target, name))
		switch {
		case err == nil:
			status.Files++
		case !errors.Is(err, fs.ErrNotExist):
			return err
		case missing == "":
			missing = name
		}
		return nil
	})
	if err != nil || missing == "" {
		status.Phase, status.Message = datamove.Completed, "moved"
		return status, err
	}
	if err := copyFile(data, path.Join(source, missing), store, path.Join(target, missing)); err != nil {
		return status, fmt.Errorf("moving %s: %w", missing, err)
	}
	status.Files++
	status.Message = "moved " + missing
	return status, nil
}

// copyFile copies to a temporary file and renames it into place when it is complete.
func copyFile(from *os.Root, source string, to *os.Root, target string) error {
	if err := to.MkdirAll(path.Dir(target), 0o700); err != nil {
		return err
	}
	in, err := from.Open(source)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := to.Create(target + ".part")
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return to.Rename(target+".part", target)
}
