// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletionrun

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// TestAwaitRestores checks that a DeletionRun waits for the Restores in the cache, and that the
// survey finds those that the cache does not contain.
func TestAwaitRestores(t *testing.T) {
	t.Parallel()
	// A fake client changes the objects that it is created with.
	open := func() []client.Object {
		return []client.Object{&v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "back"}, Spec: v1alpha1.RestoreSpec{BackupName: "nightly"}}}
	}
	for name, tc := range map[string]struct {
		cached, live []client.Object
		wantReady    bool
		wantFound    []string
	}{
		"none":                             {wantReady: true},
		"one that the cache shows":         {cached: open(), live: open(), wantFound: []string{"back"}},
		"one that the cache does not show": {live: open(), wantReady: true, wantFound: []string{"back"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			newClient := func(objects []client.Object) client.Client {
				return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
			}
			r := &Reconciler{
				Dependencies: lifecycle.Dependencies{Client: newClient(tc.cached), Reader: newClient(tc.live)},
				driver:       &lifecycle.Driver[*v1alpha1.DeletionRun]{},
			}
			d := &v1alpha1.DeletionRun{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "away"}}
			d.Status.BackupName = "nightly"
			ready, err := r.awaitRestores(t.Context(), &scope{Object: d})
			if err != nil || ready != tc.wantReady {
				t.Errorf("ready: %t, want %t; error %v", ready, tc.wantReady, err)
			}
			found, err := r.planDeleteActions(t.Context(), d, &v1alpha1.Backup{})
			if err != nil || !slices.Equal(found.activeRestores, tc.wantFound) {
				t.Errorf("the survey found %v, want %v; error %v", found.activeRestores, tc.wantFound, err)
			}
		})
	}
}

// TestBuildHookPlan_Unusable has Plugins whose DeleteAction the Backup has parameters for. A deletion
// waits for what is Recoverable.
func TestBuildHookPlan_Unusable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit func(*v1alpha1.Plugin)
		// want are the parts of the only message.
		want []string
	}{
		"suspended": {edit: func(p *v1alpha1.Plugin) { p.Spec.Suspend = true }},
		"crashes":   {edit: func(*v1alpha1.Plugin) {}, want: []string{"Delete action example.io/copy", "Plugin copier is not ready (it crashed)", "failurePolicy to Ignore"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plugin := v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "copier"}}
			plugin.Status.Actions = []v1alpha1.ProvidedAction{{Name: "example.io/copy", Kind: v1alpha1.ActionKindDelete}}
			conditions.SetSummary(&plugin, conditions.StalledRetrying, "CrashLoop", "it crashed")
			tc.edit(&plugin)
			b := &v1alpha1.Backup{}
			b.Spec.Parameters = map[string]v1alpha1.ParameterSet{"example.io/copy": {"depth": "2"}}
			plan, loading := buildHookPlan(b, []v1alpha1.Plugin{plugin})
			text := strings.Join(plan.Recoverable, "\n")
			if loading != "" || (text == "") != (len(tc.want) == 0) || !slices.Equal(plan.Recoverable, plan.Errors) {
				t.Fatalf("waits for %q, loads %q; errors %q", plan.Recoverable, loading, plan.Errors)
			}
			for _, part := range tc.want {
				if !strings.Contains(text, part) {
					t.Errorf("waits for %q, want %q", text, part)
				}
			}
		})
	}
}
