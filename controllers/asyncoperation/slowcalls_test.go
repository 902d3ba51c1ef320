// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/asyncoperation"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

var _ = Describe("Slow calls of operations", Label("operations"), func() {
	It("polls all operations while status writes are blocked", func() {
		t := GinkgoTB()
		const n, writers, often = 40, 20, 5
		env := cluster.NewEnv(t)
		b := backup(env)
		ops := make([]*v1alpha1.AsyncOperation, n)
		for i := range ops {
			ops[i] = begin(env, b, callResult(fmt.Sprintf("job-%d", i)))
		}
		slow := make(chan struct{})
		p := &plugin{progress: func(context.Context, asked, int) (item.Progress, error) {
			select {
			case <-slow:
				return done, nil
			default:
				return half, nil
			}
		}}
		operator(t, env, p, func(r *asyncoperation.Reconciler) {
			r.Client = watched{Client: r.Client, before: func(ctx context.Context, _ client.Object) error {
				select {
				case <-slow:
				case <-ctx.Done():
				}
				return nil
			}}
		})
		suite.Eventually(t, func() string {
			asked := 0
			for i := range ops {
				if polls, _ := p.questions(fmt.Sprintf("job-%d", i)); polls >= often {
					asked++
				}
			}
			if asked < n-writers {
				return fmt.Sprintf("%d operations were polled often, want %d", asked, n-writers)
			}
			return ""
		})
		close(slow)
		for _, op := range ops {
			await(env, op, v1alpha1.AsyncOperationPhaseCompleted) // no outcome was lost
		}
	})

	It("cancels the operations of a plugin that hangs on every poll", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		p := &plugin{}
		p.progress = func(ctx context.Context, _ asked, _ int) (item.Progress, error) {
			<-ctx.Done()
			return item.Progress{}, ctx.Err()
		}
		operator(t, env, p, func(r *asyncoperation.Reconciler) {
			r.Limits.CallsPerPlugin, r.Limits.CallTimeout = 1, time.Hour
		})
		b := backup(env)
		first, second := begin(env, b), begin(env, b, callResult("job-2"))
		suite.Eventually(t, func() string {
			one, _ := p.questions("job-1")
			two, _ := p.questions("job-2")
			if one+two == 0 {
				return "the plugin was not polled"
			}
			return ""
		})
		suite.UpdateWithRetry(env, first, cancel)
		suite.UpdateWithRetry(env, second, cancel)
		for _, op := range []*v1alpha1.AsyncOperation{first, second} {
			suite.WaitFor(env, op, func(op *v1alpha1.AsyncOperation) string {
				if op.Status.Cancel != nil && op.Status.Cancel.Answer == v1alpha1.CancelAnswerAcknowledged {
					return ""
				}
				return fmt.Sprintf("Cancel was not called: %s", op.Status.Message)
			})
		}
	})

	It("ends a canceled operation while a hanging poll holds the only slot", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		p := &plugin{}
		p.progress = func(ctx context.Context, a asked, _ int) (item.Progress, error) {
			if _, cancels := p.questions(a.Operation.OperationID); cancels > 0 {
				return item.Progress{Completed: true, Cancelled: true}, nil
			}
			<-ctx.Done()
			return item.Progress{}, ctx.Err()
		}
		operator(t, env, p, func(r *asyncoperation.Reconciler) {
			r.Limits.CallsPerPlugin, r.Limits.CallTimeout = 1, time.Hour
		})
		b := backup(env)
		first := begin(env, b)
		suite.Eventually(t, func() string {
			if polls, _ := p.questions("job-1"); polls == 0 {
				return "the plugin was not polled"
			}
			return ""
		})
		second := begin(env, b, callResult("job-2"))
		suite.UpdateWithRetry(env, second, cancel)
		await(env, second, v1alpha1.AsyncOperationPhaseCancelled)
		if suite.GetIfExists(env, first) && first.Ended() {
			t.Errorf("the hanging operation has finished: %s", first.Status.Message)
		}
	})
})
