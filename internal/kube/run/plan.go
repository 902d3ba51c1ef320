// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/hook"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
)

// Plan returns the first phase. It has the plan made, by plan, of the Plugins that
// the cache shows, and finds the HookRuns of one that is recorded. Until then a
// person can stop the run, and nothing is owed.
func (d *Driver[T]) Plan(plan func(ctx context.Context, s *Scope[T], plugins []v1alpha1.Plugin) (done bool, err error)) Phase[T] {
	return func(ctx context.Context, s *Scope[T]) (bool, error) {
		switch {
		case Planned(s.Object):
			return true, d.loadRuns(ctx, s)
		case Decided(s.Object):
			return true, nil
		case s.Stopping():
			return d.stopPlanning(s), nil
		}
		plugins, err := d.Plugins(ctx, d.Client)
		if err != nil {
			return false, err
		}
		return plan(ctx, s, plugins)
	}
}

// Plugins lists every Plugin.
func (d *Driver[T]) Plugins(ctx context.Context, reader client.Reader) ([]v1alpha1.Plugin, error) {
	var list v1alpha1.PluginList
	if err := reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing the Plugins: %w", err)
	}
	return list.Items, nil
}

// AwaitPlugin says that a run waits for a Plugin that is being started.
func (s *Scope[T]) AwaitPlugin(name string) {
	s.Waiting(v1alpha1.ReasonWaitingForPlugins, fmt.Sprintf("Waiting for Plugin %s to be started", name))
}

// AwaitSlot says that a run waits for its turn.
func (d *Driver[T]) AwaitSlot(s *Scope[T]) {
	say := s.Waiting
	if Planned(s.Object) {
		say = s.Running
	}
	say(v1alpha1.ReasonQueued, fmt.Sprintf("Waiting for one of %d slots; the operator's flag --max-concurrent-%s sets their number",
		d.Slots, d.Kind.plural()))
}

// stopPlanning ends a run that was cancelled before its plan was recorded. It
// returns false while one of its steps still runs.
func (d *Driver[T]) stopPlanning(s *Scope[T]) bool {
	if d.StopSteps(s, d.Steps...) {
		s.Waiting(v1alpha1.ReasonCancelling, "Cancelling")
		return false
	}
	s.Decide(Outcome{PhaseCancelled, v1alpha1.ReasonCancelled, "Cancelled before it began: " + s.WhyStopping()}, d.Now())
	return true
}

// Record creates the HookRuns of a plan and writes down that the run begins.
func (d *Driver[T]) Record(ctx context.Context, s *Scope[T], hooks hook.Plan) error {
	if err := d.createRuns(ctx, s, hooks); err != nil {
		return err
	}
	now := metav1.NewTime(d.Now())
	status := s.Object.Run()
	status.StartTimestamp, status.PlanWarnings = &now, shortList(hooks.Warnings)
	status.ItemActions = plannedItems(hooks.Items)
	s.recordActions()
	conditions.Set(s.Object, v1alpha1.ConditionPlanned, metav1.ConditionTrue, v1alpha1.ReasonPlanRecorded, d.Kind.describe(hooks))
	return nil
}

func (k Kind) describe(hooks hook.Plan) string {
	parts := []string{fmt.Sprintf("%d %s and %d %s actions are planned", len(hooks.Pre), k.Pre(), len(hooks.Post), k.Post())}
	if k.Only != "" {
		parts[0] = fmt.Sprintf("%d %s actions are planned", len(hooks.Pre), k.Pre())
	}
	for _, skip := range hooks.Skipped {
		parts = append(parts, fmt.Sprintf("%s %s is skipped: %s", k.points().Title(skip.Side), skip.Name, skip.Reason))
	}
	if n := len(hooks.Items); n > 0 {
		parts = append(parts, fmt.Sprintf("%d %s actions are planned", n, k.points().Title(hook.Item)))
	}
	return strings.Join(parts, "; ")
}
