// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/asyncoperation"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

var _ = Describe("An operation and its environment", Label("operations"), func() {
	Context("continues when another operator takes over", func() {
		It("running", func() {
			t := GinkgoTB()
			env := cluster.NewEnv(t)
			op := begin(env, backup(env))
			stop := operator(t, env, answers(half))
			await(env, op, v1alpha1.AsyncOperationPhaseInProgress)
			stop()
			operator(t, env, answers(done))
			await(env, op, v1alpha1.AsyncOperationPhaseCompleted)
		})
		It("canceling", func() {
			t := GinkgoTB()
			env := cluster.NewEnv(t)
			op := begin(env, backup(env), cancel)
			deaf := answers(half)
			deaf.cancel = func(ctx context.Context, _ asked) error { <-ctx.Done(); return ctx.Err() }
			stop := operator(t, env, deaf)
			suite.Eventually(t, func() string {
				if _, cancels := deaf.questions("job-1"); cancels == 0 {
					return "Cancel was not called"
				}
				return ""
			})
			stop()
			if suite.GetIfExists(env, op); op.Ended() || op.Status.Cancel != nil && op.Status.Cancel.Answer != "" {
				t.Fatalf("the operator left %+v", op.Status)
			}
			second := stoppable()
			operator(t, env, second)
			await(env, op, v1alpha1.AsyncOperationPhaseCancelled)
			if _, cancels := second.questions("job-1"); cancels == 0 {
				t.Error("Cancel was not called again, although its outcome is unknown")
			}
		})
		It("finished", func() {
			t := GinkgoTB()
			env := cluster.NewEnv(t)
			b := backup(env)
			op := begin(env, b)
			stop := operator(t, env, answers(done))
			await(env, op, v1alpha1.AsyncOperationPhaseCompleted)
			stop()
			suite.UpdateWithRetry(env, op, cancel)
			want := op.DeepCopy()
			conditions.ObserveGeneration(want)
			second := answers(done)
			operator(t, env, second)
			await(env, begin(env, b, callResult("job-2")), v1alpha1.AsyncOperationPhaseCompleted)
			await(env, op, v1alpha1.AsyncOperationPhaseCompleted)
			if diff := cmp.Diff(want.Status, op.Status); diff != "" {
				t.Errorf("the status of a finished operation was changed (-want +got):\n%s", diff)
			}
			if polls, cancels := second.questions("job-1"); polls+cancels > 0 {
				t.Errorf("a finished operation was polled %d times and canceled %d times", polls, cancels)
			}
		})
	})

	It("is not delayed by another plugin that never answers", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		b := backup(env)
		var now, most atomic.Int32
		p := &plugin{progress: func(ctx context.Context, a asked, _ int) (item.Progress, error) {
			if a.Plugin == "good" {
				return done, nil
			}
			n := now.Add(1)
			defer now.Add(-1)
			for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
			}
			<-ctx.Done()
			return item.Progress{}, ctx.Err()
		}}
		for i := range 20 {
			begin(env, b, ofPlugin("hanging"), callResult(fmt.Sprintf("hangs-%d", i)))
		}
		operator(t, env, p)
		suite.Eventually(t, func() string {
			if n := now.Load(); n < 8 {
				return fmt.Sprintf("%d calls hang, want 8", n)
			}
			return ""
		})
		for i := range 5 {
			await(env, begin(env, b, ofPlugin("good"), callResult(fmt.Sprintf("good-%d", i))), v1alpha1.AsyncOperationPhaseCompleted)
		}
		if n := most.Load(); n != 8 {
			t.Errorf("%d concurrent calls of the hanging plugin, want 8", n)
		}
	})

	It("continues when its plugin is back", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		op := begin(env, backup(env))
		var away atomic.Bool
		p := answers(half)
		p.missing = func() error {
			if away.Load() {
				return errors.New(`the plugin "example" is not loaded`)
			}
			return nil
		}
		operator(t, env, p)
		await(env, op, v1alpha1.AsyncOperationPhaseInProgress)
		away.Store(true)
		const want = `The plugin cannot be reached; retrying: the plugin "example" is not loaded`
		says := func(want string) {
			t.Helper()
			suite.WaitFor(env, op, func(op *v1alpha1.AsyncOperation) string {
				if op.Status.Message == want {
					return ""
				}
				return fmt.Sprintf("the message is %q, want %q", op.Status.Message, want)
			})
		}
		says(want)
		away.Store(false)
		says("Running: 50 % (100 of 200 MiB); copying")
		if op.Status.TransientErrors == 0 || op.Ended() {
			t.Errorf("the status is %+v", op.Status)
		}
	})

	It("waits until the operator has loaded its plugin", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		b := backup(env)
		name := env.Namespace // Plugins are not namespaced
		suite.Create(env, &v1alpha1.Plugin{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.PluginSpec{Executor: v1alpha1.Executor{Process: &v1alpha1.ProcessExecutor{Command: "example"}}},
		})
		p := answers(done)
		p.loading = make(chan struct{})
		op, orphan := begin(env, b, ofPlugin(name)), begin(env, b, callResult("job-2"))
		late := begin(env, b, callResult("job-3"), ofPlugin(name), func(op *v1alpha1.AsyncOperation) { op.Spec.Timeout.Duration = time.Second })
		operator(t, env, p)
		await(env, orphan, v1alpha1.AsyncOperationPhaseCompleted) // its Plugin will never be loaded
		await(env, late, v1alpha1.AsyncOperationPhaseCancelling)
		if polls, _ := p.questions("job-1"); polls != 0 || suite.GetIfExists(env, op) && op.Status.TransientErrors != 0 {
			t.Errorf("polled %d times before the plugin was loaded, %d errors", polls, op.Status.TransientErrors)
		}
		close(p.loading)
		await(env, op, v1alpha1.AsyncOperationPhaseCompleted)
		await(env, late, v1alpha1.AsyncOperationPhaseCompleted)
	})

	Context("is canceled when it or its parent is deleted", func() {
		It("operation", func() {
			t := GinkgoTB()
			env := cluster.NewEnv(t)
			b := backup(env)
			op := begin(env, b)
			p := stoppable()
			operator(t, env, p)
			await(env, op, v1alpha1.AsyncOperationPhaseInProgress)
			env.Delete(op)
			await(env, op, v1alpha1.AsyncOperationPhaseCancelled) // the Backup still has to read the outcome
			conclude(t, env, b)
			env.WaitForDeletion(op)
			if _, cancels := p.questions("job-1"); cancels != 1 {
				t.Errorf("Cancel was called %d times", cancels)
			}
			env.WaitForEvent(op, "Normal Cancelled")
		})
		It("operation that cannot be canceled", func() {
			t := GinkgoTB()
			env := cluster.NewEnv(t)
			b := backup(env)
			op := begin(env, b)
			operator(t, env, answers(half), func(r *asyncoperation.Reconciler) { r.Operations.CancelTimeout = time.Second })
			await(env, op, v1alpha1.AsyncOperationPhaseInProgress)
			env.Delete(op)
			env.WaitForEvent(op, "Warning CancelUnconfirmed")
			conclude(t, env, b)
			env.WaitForDeletion(op)
		})
		It("finished operation", func() {
			t := GinkgoTB()
			env := cluster.NewEnv(t)
			b := backup(env)
			op := begin(env, b)
			operator(t, env, answers(done))
			await(env, op, v1alpha1.AsyncOperationPhaseCompleted)
			env.Delete(op)
			conclude(t, env, b)
			env.WaitForDeletion(op)
		})
		It("Backup", func() {
			t := GinkgoTB()
			env := cluster.NewEnv(t)
			b := backup(env)
			op := begin(env, b)
			p := stoppable()
			operator(t, env, p)
			await(env, op, v1alpha1.AsyncOperationPhaseInProgress)
			env.Delete(b)
			await(env, op, v1alpha1.AsyncOperationPhaseCancelled)
			p.mu.Lock()
			defer p.mu.Unlock()
			if first, last := p.polls[0].Operation.Parent, p.cancels[0].Operation.Parent; string(first) != string(last) {
				t.Errorf("the plugin saw %s, and %s after the Backup was deleted", first, last)
			}
		})
		It("Backup, before the operator starts", func() {
			t := GinkgoTB()
			env := cluster.NewEnv(t)
			other := backup(env)
			op := begin(env, other, func(op *v1alpha1.AsyncOperation) { op.Spec.ParentRef.UID = "another" })
			operator(t, env, stoppable())
			await(env, op, v1alpha1.AsyncOperationPhaseCancelled)
		})
	})

	It("is canceled when its Backup ends before it", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		b := backup(env)
		op := begin(env, b)
		operator(t, env, stoppable())
		await(env, op, v1alpha1.AsyncOperationPhaseInProgress)
		conclude(t, env, b)
		await(env, op, v1alpha1.AsyncOperationPhaseCancelled)
		late := begin(env, b)
		await(env, late, v1alpha1.AsyncOperationPhaseCancelled)
	})

	It("is deleted after its time to live", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		ended, going := backup(env), backup(env)
		conclude(t, env, ended)
		first, kept, orphan := begin(env, ended), begin(env, going), begin(env, &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "gone", UID: types.UID("gone")}})
		operator(t, env, answers(done), func(r *asyncoperation.Reconciler) { r.Limits.TTL = time.Second })
		env.WaitForDeletion(first)
		env.WaitForDeletion(orphan)
		await(env, kept, v1alpha1.AsyncOperationPhaseCompleted)
		conclude(t, env, going)
		env.WaitForDeletion(kept)
	})

	It("is deleted in time although it finished by a clock that was a year ahead", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		ended := backup(env)
		conclude(t, env, ended)
		op := begin(env, ended)
		stop := operator(t, env, answers(done), func(r *asyncoperation.Reconciler) {
			r.Now = func() time.Time { return time.Now().Add(8760 * time.Hour) }
		})
		await(env, op, v1alpha1.AsyncOperationPhaseCompleted)
		stop()
		operator(t, env, answers(done), func(r *asyncoperation.Reconciler) { r.Limits.TTL = time.Second })
		env.WaitForDeletion(op)
	})

	Context("is not canceled before its timeout is recorded", func() {
		for name, disturb := range suite.SortedByName(map[string]func(ctx context.Context, c client.Client, op client.Object) error{
			"conflict": func(ctx context.Context, c client.Client, op client.Object) error {
				patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"touched":"yes"}}}`))
				return c.Patch(ctx, &v1alpha1.AsyncOperation{ObjectMeta: metav1.ObjectMeta{Namespace: op.GetNamespace(), Name: op.GetName()}}, patch)
			},
			"the API server failed": func(context.Context, client.Client, client.Object) error {
				return errors.New("the API server is unavailable")
			},
		}) {
			It(name, func() {
				t := GinkgoTB()
				env := cluster.NewEnv(t)
				p := stoppable()
				op := begin(env, backup(env), func(op *v1alpha1.AsyncOperation) { op.Spec.Timeout.Duration = time.Second })
				var writes, cancelsThen, failed atomic.Int32
				operator(t, env, p, func(r *asyncoperation.Reconciler) {
					r.Client = watched{Client: r.Client, failed: &failed, before: func(ctx context.Context, object client.Object) error {
						if op, ok := object.(*v1alpha1.AsyncOperation); !ok || op.Status.Cancel == nil || writes.Add(1) > 1 {
							return nil
						}
						_, cancels := p.questions("job-1")
						cancelsThen.Store(int32(cancels))
						return disturb(ctx, env.Client, object)
					}}
				})
				await(env, op, v1alpha1.AsyncOperationPhaseFailed)
				if cancelsThen.Load() != 0 || failed.Load() == 0 {
					t.Errorf("%d calls before the first write; of %d writes %d failed", cancelsThen.Load(), writes.Load(), failed.Load())
				}
			})
		}
	})

	for name, tc := range suite.SortedByName(map[string]struct {
		edits []func(*v1alpha1.AsyncOperation)
		phase v1alpha1.AsyncOperationPhase
	}{
		"it completes":   {nil, v1alpha1.AsyncOperationPhaseCompleted},
		"it is canceled": {[]func(*v1alpha1.AsyncOperation){cancel}, v1alpha1.AsyncOperationPhaseCancelled},
	}) {
		It("limits the rate of status writes, except for the outcome, if "+name, func() {
			t := GinkgoTB()
			const perSecond, burst, n = 0.01, 5, 30
			env := cluster.NewEnv(t)
			b := backup(env)
			ops := make([]*v1alpha1.AsyncOperation, n)
			for i := range ops {
				ops[i] = begin(env, b, append(tc.edits, callResult(fmt.Sprintf("job-%d", i)))...)
			}
			p := stoppable()
			if tc.edits == nil {
				p = &plugin{progress: func(_ context.Context, _ asked, n int) (item.Progress, error) {
					return item.Progress{NCompleted: int64(n), NTotal: 20, Completed: n >= 20}, nil
				}}
			}
			var writes, published atomic.Int32
			operator(t, env, p, func(r *asyncoperation.Reconciler) {
				r.Limits.WritesPerSecond, r.Limits.WriteBurst = perSecond, burst
				r.Recorder = countedEvents{EventRecorder: r.Recorder, published: &published}
				r.Client = watched{Client: r.Client, before: func(context.Context, client.Object) error {
					writes.Add(1)
					return nil
				}}
			})
			for _, op := range ops {
				await(env, op, tc.phase) // no outcome is skipped
				if tc.edits == nil && op.Status.Progress.Completed != 20 {
					t.Errorf("the last answer was lost: %+v", op.Status.Progress)
				}
			}
			if least, most := int32(n), int32(n+burst+1); writes.Load() < least || writes.Load() > most {
				t.Errorf("%d writes, want from %d to %d", writes.Load(), least, most)
			}
			most := n
			if tc.phase == v1alpha1.AsyncOperationPhaseCompleted {
				most = 0
			}
			if published.Load() > int32(most) {
				t.Errorf("%d events, want %d at most", published.Load(), most)
			}
		})
	}
})

// countedEvents is a recorder that counts its events.
type countedEvents struct {
	events.EventRecorder
	published *atomic.Int32
}

// Eventf implements events.EventRecorder.
func (c countedEvents) Eventf(regarding, related runtime.Object, level, reason, action, note string, args ...any) {
	c.published.Add(1)
	c.EventRecorder.Eventf(regarding, related, level, reason, action, note, args...)
}

// watched is a client that reports each status before it writes it.
type watched struct {
	client.Client
	before func(ctx context.Context, object client.Object) error
	// failed, if set, counts failed writes.
	failed *atomic.Int32
}

// Status implements client.Client.
func (w watched) Status() client.SubResourceWriter {
	return watchedStatus{SubResourceWriter: w.Client.Status(), watched: w}
}

type watchedStatus struct {
	client.SubResourceWriter
	watched watched
}

// Patch implements client.SubResourceWriter.
func (w watchedStatus) Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	err := w.watched.before(ctx, object)
	if err == nil {
		err = w.SubResourceWriter.Patch(ctx, object, patch, opts...)
	}
	if err != nil && w.watched.failed != nil {
		w.watched.failed.Add(1)
	}
	return err
}
