// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/hook"
)

// TestFinalizeHookRuns finalizes the HookRuns of a Backup. One of them has a Job
// that still has to be removed.
func TestFinalizeHookRuns(t *testing.T) {
	t.Parallel()
	b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "nightly", UID: "b-1"}}
	b.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPlanned, Status: metav1.ConditionTrue}}
	runNamed := func(name string, removing bool) *v1alpha1.HookRun {
		run := &v1alpha1.HookRun{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, Finalizers: []string{v1alpha1.FinalizerHookRun},
			Labels: map[string]string{v1alpha1.LabelParentUID: "b-1"},
		}}
		run.Status.Removing = removing
		return run
	}
	left, other := runNamed("a", true), runNamed("b", false)
	d := driverWith(t, nil, left, other)
	check := func(wantAll bool, wantHeld ...bool) {
		t.Helper()
		if all, err := d.finalizeHookRuns(t.Context(), b); all != wantAll || err != nil {
			t.Errorf("all finalizers were removed: %t, %v; want %t", all, err, wantAll)
		}
		for i, run := range []*v1alpha1.HookRun{left, other} {
			if err := d.Client.Get(t.Context(), client.ObjectKeyFromObject(run), run); err != nil {
				t.Fatal(err)
			}
			if held := controllerutil.ContainsFinalizer(run, v1alpha1.FinalizerHookRun); held != wantHeld[i] {
				t.Errorf("HookRun %s is held: %t, want %t", run.Name, held, wantHeld[i])
			}
		}
	}
	check(false, true, false)
	left.Status.Removing = false
	if err := d.Client.Update(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	check(true, false, false)
	// A user retries one of them.
	left.Finalizers = []string{v1alpha1.FinalizerHookRun}
	left.Status.Attempt, left.Status.LastIntervention = 2, &v1alpha1.HandledHookIntervention{}
	if err := d.Client.Update(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	check(false, true, false)
}

// TestCreateHookRun_Intervention adopts a HookRun of a plan that was not recorded, which a user has skipped
// already.
func TestCreateHookRun_Intervention(t *testing.T) {
	t.Parallel()
	d, b := driverWith(t, nil), queued("nightly", 0)
	step := hook.PlannedAction{Action: hook.Action{Name: "freeze", Plugin: "db", Timeout: time.Minute}}
	first, err := d.createHookRun(t.Context(), b, pre, step)
	if err != nil {
		t.Fatal(err)
	}
	first.Spec.Intervention = &v1alpha1.HookIntervention{ID: "1", Type: v1alpha1.HookInterventionSkip, User: "jane", Reason: "not needed"}
	if err := d.Client.Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	again, err := d.createHookRun(t.Context(), b, pre, step)
	if err != nil || again.Spec.Intervention == nil {
		t.Errorf("the HookRun is %+v, %v; want the one with the intervention", again, err)
	}
}
