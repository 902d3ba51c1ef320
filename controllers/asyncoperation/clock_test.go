// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/asyncoperation"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("An operation and clocks", Label("operations"), func() {
	Context("starts operations although the operator's clock is a day ahead", func() {
		ahead := func(r *asyncoperation.Reconciler) { r.Now = func() time.Time { return time.Now().Add(24 * time.Hour) } }
		for name, options := range suite.SortedByName(map[string][]func(*asyncoperation.Reconciler){
			"server time available": {ahead},
			"creating objects is forbidden": {ahead, func(r *asyncoperation.Reconciler) {
				r.ServerTime = func(context.Context, string) (time.Time, error) {
					return time.Time{}, apierrors.NewForbidden(schema.GroupResource{}, "server-time", nil)
				}
			}},
		}) {
			It(name, func() {
				t := GinkgoTB()
				env, p := cluster.NewEnv(t), answers(half, done)
				op := begin(env, backup(env))
				operator(t, env, p, options...)
				await(env, op, v1alpha1.AsyncOperationPhaseCompleted)
				if _, cancels := p.questions(op.Spec.OperationID); cancels > 0 || op.Status.Cancel != nil {
					t.Errorf("cancellation was requested: %+v", op.Status.Cancel)
				}
			})
		}
	})
})
