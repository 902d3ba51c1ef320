// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/kube/location"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/restore/job"
)

// The steps of a run that take time. The runner carries them out.
const (
	stepFind    = "find"
	stepRestore = "restore"
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
		request := r.requestOf(s)
		key := types.NamespacedName{Namespace: s.Object.Namespace, Name: s.Object.Status.StorageLocation}
		return func(ctx context.Context) (R, error) {
			return location.With(ctx, r.Client, r.Opener, key, func(opened *store) (R, error) {
				return work(ctx, opened, request)
			})
		}, nil
	})
}
