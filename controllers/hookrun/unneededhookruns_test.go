// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun_test

import (
	"context"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/hookrun"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// finishBackup finishes a Backup with nothing left to do.
func finishBackup(t testing.TB, env *suite.Env, backup *v1alpha1.Backup, edits ...func(*v1alpha1.Backup)) {
	t.Helper()
	if !suite.GetIfExists(env, backup) {
		t.Fatal("the Backup does not exist")
	}
	now := metav1.Now()
	backup.Status.Phase, backup.Status.CompletionTimestamp = v1alpha1.RunPhaseCancelled, &now
	conditions.Set(backup, v1alpha1.ConditionSucceeded, metav1.ConditionFalse, v1alpha1.ReasonCancelled, "Cancelled")
	conditions.SetSummary(backup, conditions.Stalled, v1alpha1.ReasonCancelled, "Cancelled")
	for _, edit := range edits {
		edit(backup)
	}
	if err := env.Client.Status().Update(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
}

// planned sets the condition that a plan was recorded.
func planned(backup *v1alpha1.Backup) {
	conditions.Set(backup, v1alpha1.ConditionPlanned, metav1.ConditionTrue, v1alpha1.ReasonPlanRecorded, "1 action")
}

// calledFirst records that the first half of a pair was called.
func calledFirst(backup *v1alpha1.Backup) {
	planned(backup)
	now := metav1.Now()
	backup.Status.PreBackupActionsStatuses = &[]v1alpha1.ActionStatus{{
		PluginName: "example.io/freeze", HookRunName: "first", Phase: v1alpha1.ActionPhaseCompleted, StartTimestamp: &now, CompletionTimestamp: &now,
	}}
}

// stray creates the HookRuns of a pair, as another process would for a Backup.
func stray(env *suite.Env, backup *v1alpha1.Backup) []*v1alpha1.HookRun {
	return []*v1alpha1.HookRun{
		plan(env, backup, desire(v1alpha1.HookDesiredStateWait)),
		plan(env, backup, desire(v1alpha1.HookDesiredStateWait), ofPoint(v1alpha1.HookPostBackup), owed),
	}
}

var _ = Describe("An unneeded HookRun", Label("hooks"), func() {
	Context("is deleted without being called", func() {
		for name, tc := range suite.SortedByName(map[string]struct {
			late bool
			edit []func(*v1alpha1.Backup)
		}{
			"canceled before the Backup started": {},
			"canceled before, created after":     {late: true},
			"another plan was executed":          {edit: []func(*v1alpha1.Backup){planned}},
			"another plan, created after":        {edit: []func(*v1alpha1.Backup){planned}, late: true},
		}) {
			It(name, func() {
				t := GinkgoTB()
				env := cluster.NewEnv(t)
				backup, actions := createBackup(env), working()
				operator(t, env, actions)
				var runs []*v1alpha1.HookRun
				if !tc.late {
					runs = stray(env, backup)
					for _, run := range runs {
						waitForPhase(env, run, v1alpha1.HookRunPhasePending)
					}
				}
				finishBackup(t, env, backup, tc.edit...)
				if tc.late {
					runs = stray(env, backup)
				}
				for _, run := range runs {
					env.WaitForDeletion(run)
				}
				if calls := actions.made(); len(calls) > 0 {
					t.Errorf("attempts %v were called", calls)
				}
			})
		}
	})

	It("is deleted by an operator that starts", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		backup := createBackup(env)
		runs := stray(env, backup)
		finishBackup(t, env, backup)
		operator(t, env, working())
		for _, run := range runs {
			env.WaitForDeletion(run)
		}
	})

	It("stays when it is owed or its Backup is unfinished", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		owing, debtor, open := createBackup(env), createBackup(env), createBackup(env)
		finishBackup(t, env, owing, calledFirst)
		finishBackup(t, env, debtor, func(b *v1alpha1.Backup) {
			conditions.Set(b, v1alpha1.ConditionCleanupOwed, metav1.ConditionTrue, v1alpha1.ReasonCleanupPending, "it must run")
		})
		second := plan(env, owing, desire(v1alpha1.HookDesiredStateWait), ofPoint(v1alpha1.HookPostBackup), owed)
		third := stray(env, debtor)[1]
		others := stray(env, open)
		early := &ahead{settled: open.Name}
		operator(t, env, working(), func(r *hookrun.Reconciler) {
			early.Client = r.Client
			r.Client = early
		})
		for _, run := range append(others, second, third) {
			waitForPhase(env, run, v1alpha1.HookRunPhasePending)
			if !run.DeletionTimestamp.IsZero() || len(run.Finalizers) == 0 {
				t.Errorf("HookRun %s %s is being removed", run.Spec.Hook, run.Spec.ParentRef.Name)
			}
		}
		if !early.wasRead() {
			t.Error("the Backup was not read")
		}
	})
})

// ahead is a client that shows an unfinished Backup as finalized.
type ahead struct {
	client.Client
	settled string

	mu   sync.Mutex
	read bool
}

// Get implements client.Client.
func (a *ahead) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := a.Client.Get(ctx, key, object, options...)
	if backup, ok := object.(*v1alpha1.Backup); ok && err == nil && key.Name == a.settled {
		backup.Status.CompletionTimestamp = &metav1.Time{Time: time.Now()}
		conditions.SetSummary(backup, conditions.Stalled, v1alpha1.ReasonCancelled, "Cancelled")
		a.mu.Lock()
		defer a.mu.Unlock()
		a.read = true
	}
	return err
}

func (a *ahead) wasRead() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.read
}
