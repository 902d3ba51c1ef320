// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun_test

import (
	"context"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/hookrun"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// ofPoint sets the hook point of a HookRun.
func ofPoint(point v1alpha1.HookPoint) func(*v1alpha1.HookRun) {
	return func(run *v1alpha1.HookRun) { run.Spec.Hook = point }
}

// listing is a client that counts how often it lists HookRuns.
type listing struct {
	client.Client
	lists atomic.Int32
}

// List implements client.Reader.
func (w *listing) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, ok := list.(*v1alpha1.HookRunList); ok {
		w.lists.Add(1)
	}
	return w.Client.List(ctx, list, options...)
}

var _ = Describe("A HookRun whose Backup is gone", Label("hooks"), func() {
	It("runs owed clean-up with the outputs of the Pre action", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		backup := suite.Create(env, &v1alpha1.Backup{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "nightly-"},
			Spec:       v1alpha1.BackupSpec{IncludedNamespaces: []v1alpha1.NamePattern{"shop"}},
		})
		actions, answer := working(), make(chan struct{})
		actions.do = func(ctx context.Context, call executor.Call) (executor.Answer, error) {
			if call.Point == executor.PointPreBackup {
				select {
				case <-answer:
				case <-ctx.Done():
				}
			}
			return executor.Answer{Outputs: map[string]string{"token": "t-1"}}, nil
		}
		cache := &listing{}
		operator(t, env, actions, func(r *hookrun.Reconciler) { cache.Client, r.Client = r.Client, cache })
		first := plan(env, backup)
		waitForPhase(env, first, v1alpha1.HookRunPhaseInProgress)
		second := plan(env, backup, owed, ofPoint(v1alpha1.HookPostBackup), desire(v1alpha1.HookDesiredStateWait))
		waitForPhase(env, second, v1alpha1.HookRunPhasePending) // the operator has seen that it is owed
		env.Delete(backup)
		env.Delete(first)
		env.Delete(second)
		// The operator reads the first half repeatedly, until it has finished.
		before := cache.lists.Load()
		suite.Eventually(t, func() string {
			if cache.lists.Load() < before+4 {
				return "the operator does not wait for the first half"
			}
			return ""
		})
		if calls := actions.made(); len(calls) != 1 {
			t.Errorf("attempts %v were called while the first half ran, want only its own", calls)
		}
		close(answer)
		env.WaitForDeletion(second)
		env.WaitForDeletion(first)
		if calls := actions.made(); len(calls) != 2 {
			t.Fatalf("attempts %v were called, want one of each half", calls)
		}
		call := actions.call(1)
		if call.Point != executor.PointPostBackup || call.Outputs["example.io/freeze"]["token"] != "t-1" {
			t.Errorf("the call is for %s, with the outputs %v", call.Point, call.Outputs)
		}
		for _, part := range []string{`"kind":"Backup"`, string(backup.UID), `"includedNamespaces":["shop"]`} {
			if !strings.Contains(string(call.Subject), part) {
				t.Errorf("the parent does not contain %s: %s", part, call.Subject)
			}
		}
		env.WaitForEvent(second, "Warning CleanupPending: Its Backup "+backup.Name+" was deleted without its finalizer; running the owed clean-up anyway")
	})

	It("does not undo an action that never started", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		backup := createBackup(env)
		first := plan(env, backup, desire(v1alpha1.HookDesiredStateWait))
		second := plan(env, backup, owed, ofPoint(v1alpha1.HookPostBackup), desire(v1alpha1.HookDesiredStateWait))
		actions := working()
		operator(t, env, actions)
		env.Delete(backup)
		env.Delete(second)
		env.WaitForDeletion(second)
		env.Delete(first)
		env.WaitForDeletion(first)
		if calls := actions.made(); len(calls) > 0 {
			t.Errorf("attempts %v were called", calls)
		}
	})

	It("undoes an interrupted action without repeating it", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		backup := createBackup(env)
		first := plan(env, backup)
		begun(t, env)
		second := plan(env, backup, owed, ofPoint(v1alpha1.HookPostBackup), desire(v1alpha1.HookDesiredStateWait))
		env.Delete(backup)
		env.Delete(first)
		env.Delete(second)
		actions := working()
		operator(t, env, actions)
		env.WaitForDeletion(second)
		env.WaitForDeletion(first)
		if calls := actions.made(); len(calls) != 1 || actions.call(0).Point != executor.PointPostBackup {
			t.Fatalf("attempts %v were called, want one of the second half", calls)
		}
		if parent := string(actions.call(0).Subject); !strings.Contains(parent, string(backup.UID)) {
			t.Errorf("the parent is %s", parent)
		}
	})
})
