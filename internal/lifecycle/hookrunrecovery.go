// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/hook"
	"github.com/grapnel-dev/grapnel/internal/intervention"
)

// recreateHookRun recreates a HookRun that a user deleted after removing its finalizer. A
// HookRun that had finished is reconstructed from the status of the run. Any other is planned
// again, so that owed clean-up still runs.
func (d *Driver[T]) recreateHookRun(ctx context.Context, o T, point v1alpha1.HookPoint, action v1alpha1.ActionStatus) (*v1alpha1.HookRun, error) {
	owed := d.Kind.isCleanupAction(o, point, action)
	if IsFinalized(o) || (action.CompletionTimestamp != nil && (!owed || !isCleanupLost(o, action))) {
		return d.Kind.reconstructHookRun(o, point, action), nil
	}
	if d.Kind.HasSingleHookPoint() {
		return d.Kind.failedHookRun(o, point, action, "its HookRun was deleted without its finalizer"), nil // delete actions are not owed
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
	return d.Kind.failedHookRun(o, point, action, "its HookRun was deleted without its finalizer, and no Plugin provides the action anymore"), nil
}

// isCleanupAction reports whether an action is the second half of a pair.
func (k KindTraits) isCleanupAction(s Object, point v1alpha1.HookPoint, action v1alpha1.ActionStatus) bool {
	pre, _ := s.ActionsStatuses()
	return point == k.PostHookPoint && *pre != nil &&
		slices.ContainsFunc(**pre, func(first v1alpha1.ActionStatus) bool { return first.PluginName == action.PluginName })
}

// isCleanupLost reports whether the status of an owed action is that of a lost one. Owed
// clean-up fails in only one other way: a user abandons it.
func isCleanupLost(s Object, action v1alpha1.ActionStatus) bool {
	return action.Phase == v1alpha1.ActionPhaseFailed && s.GetAnnotations()[v1alpha1.AnnotationAbandonCleanup] != "true"
}

// replanAction returns how to run an action that was planned before. The recorded Plugin runs it
// as currently declared, regardless of its current selector. If that Plugin no longer exists,
// another Plugin that provides the action runs it.
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
	if point == k.PostHookPoint {
		steps = hooks.Post
	}
	i := slices.IndexFunc(steps, func(step hook.PlannedAction) bool { return step.Name == action.PluginName })
	if i < 0 {
		return step, false, nil
	}
	return steps[i], true, nil
}

// planActionOf returns how a Plugin runs an action. An action that the Plugin neither provides
// nor declares is called anyway: the call fails with an error that says so, until the Plugin
// provides it.
func (k KindTraits) planActionOf(s Object, point v1alpha1.HookPoint, action v1alpha1.ActionStatus, p *v1alpha1.Plugin) hook.PlannedAction {
	side := hook.Pre
	if point == k.PostHookPoint {
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

// loadingError is returned while it is unknown which Plugin runs an action.
type loadingError struct{ plugin string }

func (e *loadingError) Error() string {
	return fmt.Sprintf("its Plugin was deleted, and Plugin %s, which may replace it, is still starting", e.plugin)
}

// pluginLoadPollInterval is the time between two checks whether that Plugin is loaded.
const pluginLoadPollInterval = 5 * time.Second

// newPlaceholderHookRun returns a placeholder for a HookRun that is recreated once a Plugin is
// loaded. Nothing else in the run waits for that.
func (s *Scope[T]) newPlaceholderHookRun(point v1alpha1.HookPoint, action v1alpha1.ActionStatus, loading error) *v1alpha1.HookRun {
	run := s.kind.reconstructHookRun(s.Object, point, action)
	s.RequeueAfter(pluginLoadPollInterval)
	if action.CompletionTimestamp != nil {
		return run // it was lost before, and stays lost until the Plugin is loaded
	}
	run.Spec.DesiredState = v1alpha1.HookDesiredStateWait
	run.Status = v1alpha1.HookRunStatus{StartTimestamp: action.StartTimestamp, Message: loading.Error()}
	if s.awaitingPlugin == nil {
		s.awaitingPlugin = map[string]bool{}
	}
	s.awaitingPlugin[run.Name] = true
	return run
}

// failedHookRun is reconstructHookRun for a HookRun that did not finish.
func (k KindTraits) failedHookRun(s Object, point v1alpha1.HookPoint, action v1alpha1.ActionStatus, why string) *v1alpha1.HookRun {
	run := k.reconstructHookRun(s, point, action)
	run.Status.Phase, run.Status.Message = v1alpha1.HookRunPhaseFailed, why
	return run
}

// reconstructHookRun returns a deleted HookRun as the status of its run records it. The result
// has no UID.
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
	if run.Status.Phase == v1alpha1.HookRunPhaseSkipped && intervention.IsSkipMessage(action.Message) {
		conditions.Set(run, v1alpha1.ConditionSucceeded, metav1.ConditionTrue, v1alpha1.ReasonSkippedByUser, action.Message)
	}
	return run
}
