// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

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
)

type store = location.Store

// none is what a step returns that finds nothing out.
type none struct{}

// inStore carries out a step with the open location. It returns nil while the
// step runs; the step begins once the status of this pass is written.
func inStore[R any](
	r *Reconciler, s *scope, step string, work func(context.Context, *store, job.Request) (R, error),
) *run.Ended[R] {
	return run.Step(r.driver, s, step, func() (func(context.Context) (R, error), error) {
		request, err := r.requestOf(s)
		if err != nil {
			return nil, err
		}
		key := types.NamespacedName{Namespace: s.Object.Namespace, Name: s.Object.Status.StorageLocation}
		return func(ctx context.Context) (R, error) {
			return location.With(ctx, r.Client, r.Opener, key, func(opened *store) (R, error) {
				return work(ctx, opened, request)
			})
		}, nil
	})
}

// storeProblems says what a person can do about what the store answered.
func (r *Reconciler) storeProblems(location string, err error) []string {
	if err == nil {
		return nil
	}
	message := r.Redactor.String(err.Error())
	if job.IsTaken(err) {
		return []string{message + "; choose another name, or remove that backup first"}
	}
	return []string{fmt.Sprintf("BackupStorageLocation %s can not be used: %s", location, message)}
}
