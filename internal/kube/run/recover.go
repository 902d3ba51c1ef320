// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/hook"
)

// recover makes a HookRun again that somebody removed by force, finalizer and
// all. What had ended is rebuilt from the status of the run; what had not is
// planned again from the Plugin, so that what is owed is still paid.
func (d *Driver[T]) recover(ctx context.Context, o T, point v1alpha1.HookPoint, action v1alpha1.ActionStatus) (*v1alpha1.HookRun, error) {
	if action.CompletionTimestamp != nil || Settled(o) {
		return d.Kind.gone(o, point, action), nil
	}
	if d.Kind.Only != "" {
		return d.Kind.lost(o, point, action, "its HookRun was removed by force"), nil // nobody is owed it
	}
	plugins, err := d.Plugins(ctx, d.Client)
	if err != nil {
		return nil, err
	}
	hooks, loading := d.Kind.HooksOf(o, plugins)
	if loading != "" {
		return nil, fmt.Errorf("it was removed, and Plugin %s, which may replace it, is still being started", loading)
	}
	steps := hooks.Pre
	if point == d.Kind.Post() {
		steps = hooks.Post
	}
	for _, step := range steps {
		if step.Name == action.PluginName {
			return d.createRun(ctx, o, point, step)
		}
	}
	return d.Kind.lost(o, point, action, "its HookRun was removed by force, and no Plugin provides the action any more"), nil
}

// lost is gone for one that did not end.
func (k Kind) lost(o metav1.Object, point v1alpha1.HookPoint, action v1alpha1.ActionStatus, why string) *v1alpha1.HookRun {
	run := k.gone(o, point, action)
	run.Status.Phase, run.Status.Message = v1alpha1.HookRunPhaseFailed, why
	return run
}

// gone is what a run remembers of a HookRun that is no more.
func (k Kind) gone(o metav1.Object, point v1alpha1.HookPoint, action v1alpha1.ActionStatus) *v1alpha1.HookRun {
	now := metav1.Now()
	run := k.runOf(o, point, hook.Step{Action: hook.Action{Name: action.PluginName}})
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
