// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/hook"
)

// recreateHookRun makes a HookRun again that somebody removed by force, finalizer and
// all. What had ended is rebuilt from the status of the run; what had not is
// planned again, so that what is owed is still paid.
func (d *Driver[T]) recreateHookRun(ctx context.Context, o T, point v1alpha1.HookPoint, action v1alpha1.ActionStatus) (*v1alpha1.HookRun, error) {
	owed := d.Kind.isCleanupAction(o, point, action)
	if IsFinalized(o) || (action.CompletionTimestamp != nil && (!owed || !isCleanupLost(o, action))) {
		return d.Kind.reconstructHookRun(o, point, action), nil
	}
	if d.Kind.SinglePoint != "" {
		return d.Kind.failedHookRun(o, point, action, "its HookRun was removed by force"), nil // nobody is owed it
	}
	plugins, err := d.ListPlugins(ctx, d.Client)
	if err != nil {
		return nil, err
	}
	step, planned, err := d.Kind.replanAction(o, point, action, plugins)
	if err != nil {
		return nil, err
	}
	if planned {
		step.Cleanup = owed
		return d.createHookRun(ctx, o, point, step)
	}
	return d.Kind.failedHookRun(o, point, action, "its HookRun was removed by force, and no Plugin provides the action any more"), nil
}

// isCleanupAction reports whether an action is the second half of a pair.
func (k KindTraits) isCleanupAction(s Object, point v1alpha1.HookPoint, action v1alpha1.ActionStatus) bool {
	pre, _ := s.ActionsStatuses()
	return point == k.PostHookPoint() && *pre != nil &&
		slices.ContainsFunc(**pre, func(first v1alpha1.ActionStatus) bool { return first.PluginName == action.PluginName })
}

// isCleanupLost reports whether the status of an owed action is that of a lost one. Owed clean-up fails in
// no other way than by a person who gives it up.
func isCleanupLost(s Object, action v1alpha1.ActionStatus) bool {
	return action.Phase == v1alpha1.ActionPhaseFailed && s.GetAnnotations()[v1alpha1.AnnotationAbandonCleanup] != "true"
}

// replanAction returns how an action is run that was planned before: by the Plugin that was recorded,
// as it declares it now, whatever it selects now; or else by one that provides the action now.
func (k KindTraits) replanAction(
	s Object, point v1alpha1.HookPoint, action v1alpha1.ActionStatus, plugins []v1alpha1.Plugin,
) (step hook.PlannedAction, planned bool, err error) {
	for i := range plugins {
		if plugins[i].Name == action.Plugin {
			return k.planActionOf(s, point, action, &plugins[i]), true, nil
		}
	}
	hooks, loading := k.BuildHookPlan(s, plugins)
	if loading != "" {
		return step, false, &loadingError{plugin: loading}
	}
	steps := hooks.Pre
	if point == k.PostHookPoint() {
		steps = hooks.Post
	}
	i := slices.IndexFunc(steps, func(step hook.PlannedAction) bool { return step.Name == action.PluginName })
	if i < 0 {
		return step, false, nil
	}
	return steps[i], true, nil
}

// planActionOf returns how a Plugin runs an action. One that it neither provides nor declares is
// called all the same: the error of the call says so, until it does.
func (k KindTraits) planActionOf(s Object, point v1alpha1.HookPoint, action v1alpha1.ActionStatus, p *v1alpha1.Plugin) hook.PlannedAction {
	side := hook.Pre
	if point == k.PostHookPoint() {
		side = hook.Post
	}
	_, parameters := s.Desired()
	step := hook.PlannedAction{
		Action:     hook.Action{Plugin: p.Name, Name: action.PluginName, Side: side, Timeout: defaultActionTimeout},
		Parameters: ToStringMap(parameters[action.PluginName]),
	}
	for _, known := range k.actionsForPlugin(p, "") {
		if known.Name == action.PluginName && known.Side == side {
			step.Action = known
		}
	}
	return step
}

// loadingError is why it is not known yet how an action is run.
type loadingError struct{ plugin string }

func (e *loadingError) Error() string {
	return fmt.Sprintf("its Plugin was removed, and Plugin %s, which may replace it, is still being started", e.plugin)
}

// pluginLoadPollInterval is between two looks whether that Plugin is loaded.
const pluginLoadPollInterval = 5 * time.Second

// newPlaceholderHookRun stands for a HookRun that is made again when a Plugin is loaded: nothing else of the run
// waits for that.
func (s *Scope[T]) newPlaceholderHookRun(point v1alpha1.HookPoint, action v1alpha1.ActionStatus, loading error) *v1alpha1.HookRun {
	run := s.kind.reconstructHookRun(s.Object, point, action)
	s.RequeueAfter(pluginLoadPollInterval)
	if action.CompletionTimestamp != nil {
		return run // it was lost before, and remains so until then
	}
	run.Spec.DesiredState = v1alpha1.HookDesiredStateWait
	run.Status = v1alpha1.HookRunStatus{StartTimestamp: action.StartTimestamp, Message: loading.Error()}
	if s.awaitingPlugin == nil {
		s.awaitingPlugin = map[string]bool{}
	}
	s.awaitingPlugin[run.Name] = true
	return run
}

// failedHookRun is gone for one that did not end.
func (k KindTraits) failedHookRun(s Object, point v1alpha1.HookPoint, action v1alpha1.ActionStatus, why string) *v1alpha1.HookRun {
	run := k.reconstructHookRun(s, point, action)
	run.Status.Phase, run.Status.Message = v1alpha1.HookRunPhaseFailed, why
	return run
}

// reconstructHookRun is what a run remembers of a HookRun that is no more. It has no UID.
func (k KindTraits) reconstructHookRun(s Object, point v1alpha1.HookPoint, action v1alpha1.ActionStatus) *v1alpha1.HookRun {
	now := metav1.Now()
	run := k.newHookRun(s, point, hook.PlannedAction{
		Action: hook.Action{Name: action.PluginName, Plugin: action.Plugin}, Cleanup: k.isCleanupAction(s, point, action),
	})
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
