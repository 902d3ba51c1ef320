// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/hook"
)

// recover makes a HookRun again that somebody removed by force, finalizer and
// all. What had ended is rebuilt from the status of the Backup; what had not is
// planned again from the Plugin, so that what is owed is still paid.
func (r *Reconciler) recover(ctx context.Context, b *v1alpha1.Backup, point v1alpha1.HookPoint, action v1alpha1.ActionStatus) (*v1alpha1.HookRun, error) {
	if action.CompletionTimestamp != nil || settled(b) {
		return gone(b, point, action), nil
	}
	plugins, err := r.plugins(ctx, r.Client)
	if err != nil {
		return nil, err
	}
	hooks, loading := hooksOf(b, plugins)
	if loading != "" {
		return nil, fmt.Errorf("it was removed, and Plugin %s, which may replace it, is still being started", loading)
	}
	planned := hooks.Pre
	if point == v1alpha1.HookPostBackup {
		planned = hooks.Post
	}
	for _, step := range planned {
		if step.Name == action.PluginName {
			return r.createRun(ctx, b, point, step)
		}
	}
	lost := gone(b, point, action)
	lost.Status.Phase = v1alpha1.HookRunPhaseFailed
	lost.Status.Message = "its HookRun was removed by force, and no Plugin provides the action any more"
	return lost, nil
}

// gone is what the Backup remembers of a HookRun that is no more.
func gone(b *v1alpha1.Backup, point v1alpha1.HookPoint, action v1alpha1.ActionStatus) *v1alpha1.HookRun {
	now := metav1.Now()
	run := runOf(b, point, hook.Step{Action: hook.Action{Name: action.PluginName}})
	run.Name, run.Finalizers = action.HookRunName, nil
	run.Spec.DesiredState = v1alpha1.HookDesiredStateCancel
	run.Status = v1alpha1.HookRunStatus{
		Phase: v1alpha1.HookRunPhaseSkipped, Message: action.Message,
		StartTimestamp: action.StartTimestamp, CompletionTimestamp: action.CompletionTimestamp,
	}
	if run.Status.CompletionTimestamp == nil {
		run.Status.CompletionTimestamp = &now
	}
	if phase, ended := map[v1alpha1.ActionPhase]v1alpha1.HookRunPhase{
		v1alpha1.ActionPhaseCompleted: v1alpha1.HookRunPhaseCompleted,
		v1alpha1.ActionPhaseFailed:    v1alpha1.HookRunPhaseFailed,
	}[action.Phase]; ended {
		run.Status.Phase = phase
	}
	return run
}
