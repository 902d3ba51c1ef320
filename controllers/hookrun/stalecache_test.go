// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/hookrun"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// behind is the client of an operator whose cache lags: the first read returns an old version of a
// HookRun.
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

var _ = Describe("A HookRun in a stale cache", Label("hooks"), func() {
	Context("is not resumed when it has ended already", func() {
		for name, was := range suite.SortedByName(map[string]func(*v1alpha1.HookRun){
			"seems to run":         func(*v1alpha1.HookRun) {},
			"seems to be canceled": desire(v1alpha1.HookDesiredStateCancel),
		}) {
			It(name, func() {
				t := GinkgoTB()
				env := cluster.NewEnv(t)
				backup := createBackup(env)
				run := plan(env, backup)
				answers := make(chan struct{})
				stop, _ := operator(t, env, &actions{resumes: true, do: func(context.Context, executor.Call) (executor.Answer, error) {
					<-answers
					return executor.Answer{}, nil
				}})
				waitForPhase(env, run, v1alpha1.HookRunPhaseInProgress)
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
						return "the operator did not read the HookRun"
					}
					return ""
				})
				suite.UpdateWithRetry(env, run, func(run *v1alpha1.HookRun) { run.Annotations = map[string]string{"example.io/seen": "now"} })
				suite.Eventually(t, func() string {
					if lagging.gets.Load() < 2 {
						return "the operator did not read the HookRun again"
					}
					return ""
				})
				other := plan(env, backup)
				awaitRemoved(env, other)
				if calls := second.made(); len(calls) != 1 || len(second.stopped) != 1 || (<-second.stopped).Key != string(other.UID) {
					t.Errorf("attempts %v were called, want only that of the other HookRun", calls)
				}
			})
		}
	})

	It("is not called again by an operator that resumes after a pause", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		run := plan(env, createBackup(env), desire(v1alpha1.HookDesiredStateWait))
		theirs := run.DeepCopy()
		paused := &overtaken{meanwhile: func() {
			suite.GetIfExists(env, theirs)
			nextAttempt(theirs)
			if err := env.Client.Status().Update(t.Context(), theirs); err != nil {
				t.Error(err)
			}
		}}
		actions := working()
		operator(t, env, actions, func(r *hookrun.Reconciler) { paused.Reader, r.Reader = r.Reader, paused })
		suite.UpdateWithRetry(env, run, desire(v1alpha1.HookDesiredStateRun))
		waitForPhase(env, run, v1alpha1.HookRunPhaseCompleted)
		if calls := actions.made(); !slices.Equal(calls, []int32{3}) {
			t.Errorf("attempts %v were called, want only the one after the other operator's", calls)
		}
	})
})

// overtaken is the reader of an operator that was paused after it had recorded an attempt. When
// the operator continues, another one has advanced the HookRun.
type overtaken struct {
	client.Reader
	once      sync.Once
	meanwhile func()
}

// Get implements client.Reader.
func (o *overtaken) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, ok := object.(*v1alpha1.Backup); ok {
		o.once.Do(o.meanwhile)
	}
	return o.Reader.Get(ctx, key, object, options...)
}

// nextAttempt does what an operator does when it finds an open attempt.
func nextAttempt(run *v1alpha1.HookRun) {
	now := v1alpha1.NewMicroTime(time.Now())
	run.Status.Attempts[0].CompletionTimestamp, run.Status.Attempts[0].Reason = &now, v1alpha1.ReasonInterrupted
	run.Status.Attempt = 2
	run.Status.Attempts = append(run.Status.Attempts, v1alpha1.HookAttempt{
		Number: 2, StartTimestamp: now, Deadline: metav1.NewTime(now.Add(time.Minute)),
	})
}
