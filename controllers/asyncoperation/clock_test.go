// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation_test

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/asyncoperation"
)

// TestClockAhead: an operator whose clock is a day ahead sees operations for the first time.
func TestClockAhead(t *testing.T) {
	t.Parallel()
	ahead := func(r *asyncoperation.Reconciler) { r.Now = func() time.Time { return time.Now().Add(24 * time.Hour) } }
	for name, options := range map[string][]func(*asyncoperation.Reconciler){
		"server time available": {ahead},
		"creating objects is forbidden": {ahead, func(r *asyncoperation.Reconciler) {
			r.ServerTime = func(context.Context, string) (time.Time, error) {
				return time.Time{}, apierrors.NewForbidden(schema.GroupResource{}, "server-time", nil)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, p := cluster.NewEnv(t), answers(half, done)
			op := begin(env, backup(env))
			operator(t, env, p, options...)
			await(env, op, v1alpha1.AsyncOperationPhaseCompleted)
			if _, cancels := p.questions(op.Spec.OperationID); cancels > 0 || op.Status.Cancel != nil {
				t.Errorf("cancellation was requested: %+v", op.Status.Cancel)
			}
		})
	}
}
