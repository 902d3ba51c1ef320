// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun_test

import (
	"context"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/hookrun"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// behind is the client of an operator whose cache lags: the first time it has a HookRun as it
// was.
type behind struct {
	client.Client
	was  *v1alpha1.HookRun
	gets atomic.Int32
}

// Get implements client.Reader.
func (b *behind) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if run, ok := object.(*v1alpha1.HookRun); ok && key == client.ObjectKeyFromObject(b.was) && b.gets.Add(1) == 1 {
		b.was.DeepCopyInto(run)
		return nil
	}
	return b.Client.Get(ctx, key, object, options...)
}

// TestCacheThatLags has an operator see that an action runs that goes on without it, when
// that has ended, and what would have answered is removed.
func TestCacheThatLags(t *testing.T) {
	t.Parallel()
	for name, was := range map[string]func(*v1alpha1.HookRun){
		"it seems to run":       func(*v1alpha1.HookRun) {},
		"it seems to be undone": desire(v1alpha1.HookDesiredStateCancel),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := cluster.Env(t)
			backup := subject(env)
			run := plan(env, backup)
			answers := make(chan struct{})
			stop, _ := operator(t, env, &actions{resumes: true, do: func(context.Context, executor.Call) (executor.Answer, error) {
				<-answers
				return executor.Answer{}, nil
			}})
			await(env, run, v1alpha1.HookRunPhaseInProgress)
			lagging := &behind{was: run.DeepCopy()}
			was(lagging.was)
			close(answers)
			awaitRemoved(env, run)
			stop()

			second := working()
			second.resumes, second.stopped = true, make(chan executor.Call, 9)
			operator(t, env, second, func(r *hookrun.Reconciler) { lagging.Client, r.Client = r.Client, lagging })
			suite.Eventually(t, func() string {
				if lagging.gets.Load() == 0 {
					return "the operator did not look at the run"
				}
				return ""
			})
			suite.Change(env, run, func(run *v1alpha1.HookRun) { run.Annotations = map[string]string{"example.io/seen": "now"} })
			suite.Eventually(t, func() string {
				if lagging.gets.Load() < 2 {
					return "the operator did not look at the run once more"
				}
				return ""
			})
			other := plan(env, backup)
			awaitRemoved(env, other)
			if calls := second.made(); len(calls) != 1 || len(second.stopped) != 1 || (<-second.stopped).Key != string(other.UID) {
				t.Errorf("attempts %v were called, want only that of the other run", calls)
			}
		})
	}
}
