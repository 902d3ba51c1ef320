// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
)

// thawing returns a loaded Plugin of this name that has the action "thaw" on both sides, or
// another action.
func thawing(name, action string, change ...func(*v1alpha1.Plugin)) *v1alpha1.Plugin {
	p := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, kind := range []v1alpha1.ActionKind{v1alpha1.ActionKindPreBackup, v1alpha1.ActionKindPostBackup} {
		p.Spec.Actions = append(p.Spec.Actions, v1alpha1.PluginAction{
			Kind: kind, Name: action, Timeout: &metav1.Duration{Duration: 7 * time.Minute}, Retries: 3,
		})
		p.Status.Actions = append(p.Status.Actions, v1alpha1.ProvidedAction{Kind: kind, Name: action})
	}
	conditions.Set(p, v1alpha1.ConditionReady, metav1.ConditionTrue, "Loaded", "ready")
	for _, f := range change {
		f(p)
	}
	return p
}

// TestRecreateHookRun checks that a HookRun that was deleted without its finalizer is recreated
// as long as a Plugin provides its action. Otherwise it counts as lost, and not as done.
func TestRecreateHookRun(t *testing.T) {
	t.Parallel()
	selectsOthers := func(p *v1alpha1.Plugin) {
		for i := range p.Spec.Actions {
			p.Spec.Actions[i].Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}
		}
	}
	at := metav1.NewTime(noon)
	for name, tc := range map[string]struct {
		plugin *v1alpha1.Plugin
		action v1alpha1.ActionStatus
		// alone means that the action has no first half.
		alone       bool
		annotations map[string]string
		wantPlugin  string
		wantTimeout time.Duration
		wantOwed    bool
		wantPhase   v1alpha1.HookRunPhase
	}{
		"its Plugin did not change": {
			plugin: thawing("db", "thaw"), action: v1alpha1.ActionStatus{Plugin: "db"},
			wantPlugin: "db", wantTimeout: 7 * time.Minute, wantOwed: true,
		},
		"its Plugin selects others now": {
			plugin: thawing("db", "thaw", selectsOthers), action: v1alpha1.ActionStatus{Plugin: "db"},
			wantPlugin: "db", wantTimeout: 7 * time.Minute, wantOwed: true,
		},
		"the Backup skips it now": {
			plugin: thawing("db", "thaw"), action: v1alpha1.ActionStatus{Plugin: "db"},
			annotations: map[string]string{"thaw.grapnel.dev/postbackup": "skip"}, wantPlugin: "db", wantTimeout: 7 * time.Minute, wantOwed: true,
		},
		"its Plugin has renamed it": {
			plugin: thawing("db", "unfreeze"), action: v1alpha1.ActionStatus{Plugin: "db"},
			wantPlugin: "db", wantTimeout: defaultActionTimeout, wantOwed: true,
		},
		"its Plugin is suspended": {
			plugin: thawing("db", "thaw", func(p *v1alpha1.Plugin) { p.Spec.Suspend = true }), action: v1alpha1.ActionStatus{Plugin: "db"},
			wantPlugin: "db", wantTimeout: 7 * time.Minute, wantOwed: true,
		},
		"another Plugin has it now": {
			plugin: thawing("db2", "thaw"), action: v1alpha1.ActionStatus{Plugin: "db"},
			wantPlugin: "db2", wantTimeout: 7 * time.Minute, wantOwed: true,
		},
		"no Plugin has it": {
			plugin: thawing("web", "stop"), action: v1alpha1.ActionStatus{Plugin: "db"},
			wantPlugin: "db", wantOwed: true, wantPhase: v1alpha1.HookRunPhaseFailed,
		},
		"it was lost, and its Plugin is back": {
			plugin: thawing("db", "thaw"), action: v1alpha1.ActionStatus{Plugin: "db", Phase: v1alpha1.ActionPhaseFailed, CompletionTimestamp: &at},
			wantPlugin: "db", wantTimeout: 7 * time.Minute, wantOwed: true,
		},
		"it was lost, and a user has acknowledged that": {
			plugin: thawing("db", "thaw"), action: v1alpha1.ActionStatus{Plugin: "db", Phase: v1alpha1.ActionPhaseFailed, CompletionTimestamp: &at},
			annotations: map[string]string{v1alpha1.AnnotationAbandonCleanup: "true"},
			wantPlugin:  "db", wantOwed: true, wantPhase: v1alpha1.HookRunPhaseFailed,
		},
		"it had completed": {
			plugin: thawing("db", "thaw"), action: v1alpha1.ActionStatus{Plugin: "db", Phase: v1alpha1.ActionPhaseCompleted, CompletionTimestamp: &at},
			wantPlugin: "db", wantOwed: true, wantPhase: v1alpha1.HookRunPhaseCompleted,
		},
		"it is no second half, and failed": {
			plugin: thawing("db", "thaw"), action: v1alpha1.ActionStatus{Plugin: "db", Phase: v1alpha1.ActionPhaseFailed, CompletionTimestamp: &at},
			alone: true, wantPlugin: "db", wantPhase: v1alpha1.HookRunPhaseFailed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := queued("b", 0)
			b.Annotations = tc.annotations
			tc.action.PluginName, tc.action.HookRunName = "thaw", "b-post-thaw"
			if !tc.alone {
				b.Status.PreBackupActionsStatuses = &[]v1alpha1.ActionStatus{{PluginName: "thaw"}}
			}
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.plugin).Build()
			d := &Driver[*v1alpha1.Backup]{Kind: BackupKind, Dependencies: Dependencies{Client: c, Reader: c}}
			got, err := d.recreateHookRun(t.Context(), b, post, tc.action)
			if err != nil {
				t.Fatal(err)
			}
			if got.Spec.PluginRef.Name != tc.wantPlugin || got.Spec.Owed != tc.wantOwed || got.Status.Phase != tc.wantPhase {
				t.Errorf("the HookRun has Plugin %q, owed %t and %q; want %q, %t and %q",
					got.Spec.PluginRef.Name, got.Spec.Owed, got.Status.Phase, tc.wantPlugin, tc.wantOwed, tc.wantPhase)
			}
			if stored := exists(t.Context(), c, got); stored != (tc.wantPhase == "") || (stored && got.Spec.Timeout.Duration != tc.wantTimeout) {
				t.Errorf("the HookRun was created: %t, with a timeout of %s, want %s", stored, got.Spec.Timeout.Duration, tc.wantTimeout)
			}
		})
	}
}

// TestRecreateHookRun_WhileLoading checks that clean-up waits if its Plugin may be replaced by
// one that is still starting, and that nothing else in the run waits.
func TestRecreateHookRun_WhileLoading(t *testing.T) {
	t.Parallel()
	loads := thawing("db2", "thaw", func(p *v1alpha1.Plugin) { p.Status.Conditions = nil })
	other := run(post, "start", "")
	other.Namespace, other.Spec.Owed, other.Spec.DesiredState = "ns", true, v1alpha1.HookDesiredStateWait
	other.Labels = map[string]string{v1alpha1.LabelParentUID: "uid-b"}
	began := metav1.NewTime(noon.Add(-time.Minute))
	d, b := driverWith(t, nil, loads, other), queued("b", 0)
	ended := v1alpha1.ActionStatus{Phase: v1alpha1.ActionPhaseCompleted, StartTimestamp: &began, CompletionTimestamp: &began}
	freeze, stop := ended, ended
	freeze.PluginName, freeze.HookRunName, freeze.Plugin = "thaw", "b-pre-thaw", "db"
	stop.PluginName, stop.HookRunName, stop.Plugin = "start", "b-pre-start", "web"
	b.Status.PreBackupActionsStatuses = &[]v1alpha1.ActionStatus{freeze, stop}
	b.Status.PostBackupActionsStatuses = &[]v1alpha1.ActionStatus{
		{PluginName: "thaw", HookRunName: "b-post-thaw", Plugin: "db"}, {PluginName: "start", HookRunName: other.Name, Plugin: "web"},
	}
	s := newScope(BackupKind, b)
	s.RecordOutcome(Outcome{Phase: v1alpha1.RunPhaseFailed, Reason: v1alpha1.ReasonFailed, Message: "no space"}, noon)
	if err := d.listPlannedHookRuns(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	done, err := d.RunPostActions(t.Context(), s)
	for _, f := range s.afterUpdate {
		err = errors.Join(err, f(t.Context()))
	}
	if done || err != nil || s.requeue != pluginLoadPollInterval || !conditions.IsTrue(b, v1alpha1.ConditionCleanupOwed) {
		t.Errorf("done: %v, %v; requeued after %s, %+v", done, err, s.requeue, b.Status.Conditions)
	}
	if err := d.Client.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil || other.Spec.DesiredState != v1alpha1.HookDesiredStateRun {
		t.Errorf("the other clean-up has desiredState %s, %v", other.Spec.DesiredState, err)
	}
}

func exists(ctx context.Context, c client.Client, run *v1alpha1.HookRun) bool {
	return c.Get(ctx, client.ObjectKeyFromObject(run), &v1alpha1.HookRun{}) == nil
}

// TestRecreateHookRun_RecordsThePlugin checks that the status has what the recovery needs.
func TestRecreateHookRun_RecordsThePlugin(t *testing.T) {
	t.Parallel()
	h := run(post, "thaw", "")
	h.Spec.PluginRef.Name = "db"
	want := []v1alpha1.ActionStatus{{PluginName: "thaw", Plugin: "db", HookRunName: "thaw"}}
	if diff := cmp.Diff(&want, newActionStatuses([]*v1alpha1.HookRun{h})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
