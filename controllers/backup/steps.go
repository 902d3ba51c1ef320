// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup/job"
	"github.com/grapnel-dev/grapnel/internal/kube/location"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
)

// The steps of a run that take time. The runner carries them out.
const (
	stepCheck   = "check"
	stepClaim   = "claim"
	stepArchive = "archive"
	stepRelease = "release"
	stepAbandon = "abandon"
	stepPostLog = "postlog"
)

// stepResult is what a step found out; each fills what it knows.
type stepResult struct {
	plugins []v1alpha1.Plugin
	made    job.Result
	logged  bool
}

type store = location.Store

// inStore carries out a step with the open location. It returns nil while the
// step runs; the step begins once the status of this pass is written.
func (r *Reconciler) inStore(
	s *scope, step string, bsl *v1alpha1.BackupStorageLocation,
	work func(context.Context, *store, job.Request) (stepResult, error),
) *run.Ended[stepResult] {
	return run.Step(r.driver, s, step, func() (func(context.Context) (stepResult, error), error) {
		request, err := r.requestOf(s)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (stepResult, error) {
			return r.withStore(ctx, s.Object, bsl, func(opened *store) (stepResult, error) {
				return work(ctx, opened, request)
			})
		}, nil
	})
}

// withStore opens the location for the time of a step.
func (r *Reconciler) withStore(
	ctx context.Context, b *v1alpha1.Backup, bsl *v1alpha1.BackupStorageLocation, work func(*store) (stepResult, error),
) (result stepResult, err error) {
	if bsl == nil {
		bsl = &v1alpha1.BackupStorageLocation{}
		key := types.NamespacedName{Namespace: b.Namespace, Name: b.Status.StorageLocation}
		if err := r.Client.Get(ctx, key, bsl); err != nil {
			return stepResult{}, fmt.Errorf("reading BackupStorageLocation %s: %w", key.Name, err)
		}
	}
	opened, err := r.Opener.Open(ctx, bsl)
	if err != nil {
		return stepResult{}, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	return work(opened)
}

// storeProblems says what a person can do about what the store answered.
func (r *Reconciler) storeProblems(location string, answered *run.Ended[stepResult]) []string {
	if answered.Err == nil {
		return nil
	}
	message := r.Redactor.String(answered.Err.Error())
	if job.IsTaken(answered.Err) {
		return []string{message + "; choose another name, or remove that backup first"}
	}
	return []string{fmt.Sprintf("BackupStorageLocation %s can not be used: %s", location, message)}
}
