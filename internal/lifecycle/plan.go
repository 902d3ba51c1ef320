// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/hook"
)

// ObservePlan lists the HookRuns of a recorded plan. Until a plan is recorded, it ends a run that
// was canceled or whose steps crashed the operator too often. It returns whether a plan is still to
// be made, and if not, whether the run may continue.
func (d *Driver[T]) ObservePlan(ctx context.Context, s *Scope[T]) (needed, done bool, err error) {
	switch {
	case IsPlanned(s.Object):
		return false, true, d.listPlannedHookRuns(ctx, s)
	case IsFinished(s.Object):
		return false, true, nil
	case s.IsCancelRequested():
		return false, d.cancelPlanning(s), nil
	}
	for _, step := range d.StepNames {
		if err := d.countCrash(s, step); err != nil {
			s.RecordOutcome(d.FailedOutcome(s, "The "+d.Kind.Name+" could not start", err), d.Now())
			return false, true, nil
		}
	}
	return true, false, nil
}

// ListPlugins lists every Plugin.
func (d *Driver[T]) ListPlugins(ctx context.Context, reader client.Reader) ([]v1alpha1.Plugin, error) {
	var list v1alpha1.PluginList
	if err := reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing the Plugins: %w", err)
	}
	return list.Items, nil
}

// MarkWaitingForPlugin records that a run waits for a Plugin that is still starting. The run
// keeps its place in the queue: every run waits for that Plugin, and they continue in order.
func (s *Scope[T]) MarkWaitingForPlugin(name string) {
	s.needsSlot = true
	s.MarkWaiting(v1alpha1.ReasonWaitingForPlugins, fmt.Sprintf("Waiting for Plugin %s to start", name))
}

// MarkWaitingForSlot records that a run waits for a slot.
func (d *Driver[T]) MarkWaitingForSlot(s *Scope[T]) {
	say := s.MarkWaiting
	if IsPlanned(s.Object) {
		say = s.MarkRunning
	}
	say(v1alpha1.ReasonQueued, fmt.Sprintf("Waiting for one of %d slots; the operator's flag %s sets their number",
		d.Slots, d.Kind.SlotsFlag))
}

// cancelPlanning ends a run that was canceled before its plan was recorded. It returns false
// while one of its steps is still running.
func (d *Driver[T]) cancelPlanning(s *Scope[T]) bool {
	if d.CancelSteps(s, d.StepNames...) {
		s.MarkWaiting(v1alpha1.ReasonCancelling, "Canceling")
		return false
	}
	s.RecordOutcome(Outcome{v1alpha1.RunPhaseCancelled, v1alpha1.ReasonCancelled, "Cancelled before it started: " + s.CancelReason()}, d.Now())
	return true
}

// RecordPlan creates the HookRuns of a plan, and records that the run starts.
func (d *Driver[T]) RecordPlan(ctx context.Context, s *Scope[T], hooks hook.Plan) error {
	if err := d.createHookRuns(ctx, s, hooks); err != nil {
		return err
	}
	now := metav1.NewTime(d.Now())
	status := s.Object.Run()
	status.StartTimestamp, status.PlanWarnings = &now, truncateMessages(hooks.Warnings)
	status.ItemActions = ToPlannedItemActions(hooks.Items)
	s.recordActionStatuses()
	conditions.Set(s.Object, v1alpha1.ConditionPlanned, metav1.ConditionTrue, v1alpha1.ReasonPlanRecorded, d.Kind.describePlan(hooks))
	return nil
}

// nothingPlanned is the message of a plan without actions. It is no news, so it has no event.
const nothingPlanned = "No actions are planned"

func (k KindTraits) describePlan(hooks hook.Plan) string {
	parts := []string{fmt.Sprintf("%d %s and %d %s actions are planned", len(hooks.Pre), k.PreHookPoint, len(hooks.Post), k.PostHookPoint)}
	if k.HasSingleHookPoint() {
		parts[0] = fmt.Sprintf("%d %s actions are planned", len(hooks.Pre), k.PreHookPoint)
	}
	if len(hooks.Pre)+len(hooks.Post)+len(hooks.Items)+len(hooks.Skipped) == 0 {
		return nothingPlanned
	}
	for _, skip := range hooks.Skipped {
		parts = append(parts, fmt.Sprintf("%s %s is skipped: %s", k.hookPoints().SideName(skip.Side), skip.Name, skip.Reason))
	}
	if n := len(hooks.Items); n > 0 {
		parts = append(parts, fmt.Sprintf("%d %s actions are planned", n, k.hookPoints().SideName(hook.Item)))
	}
	return strings.Join(parts, "; ")
}
