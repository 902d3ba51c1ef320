// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/hook"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
)

// PluginLoader reports when plugins were loaded. Every operator process loads them again.
type PluginLoader interface {
	// LoadAttempted returns a channel that is closed after the first attempt to load the plugin.
	LoadAttempted(pluginObject string) <-chan struct{}
}

// WaitForPlugins waits for the first attempt to load the Plugin of each planned action. Until
// then, the failure of a call means nothing. WaitForPlugins does not wait for a Plugin that does
// not exist.
func WaitForPlugins(ctx context.Context, reader client.Reader, loads PluginLoader, planned []v1alpha1.PlannedItemAction) error {
	for _, action := range planned {
		if err := waitForPlugin(ctx, reader, loads, action.Plugin); err != nil {
			return fmt.Errorf("waiting for Plugin %s to start: %w", action.Plugin, err)
		}
	}
	return nil
}

func waitForPlugin(ctx context.Context, reader client.Reader, loads PluginLoader, name string) error {
	tried := loads.LoadAttempted(name)
	select {
	case <-tried:
		return nil
	default:
	}
	err := reader.Get(ctx, types.NamespacedName{Name: name}, &v1alpha1.Plugin{})
	if err != nil {
		return client.IgnoreNotFound(err) // it will not be loaded
	}
	select {
	case <-tried:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// NewItemActionSpecs returns how to call the planned item actions, in order. The function
// resolve returns how to reach an action of a Plugin, which need not be loaded yet. An empty
// kind means BackupItemAction in a Backup and RestoreItemAction in a Restore.
func NewItemActionSpecs[A pluginclient.SelectorProvider](s Object, resolve func(pluginObject, kind, action string) pluginclient.ResolveFunc[A]) []pluginclient.ItemActionSpec[A] {
	_, parameters := s.Desired()
	var specs []pluginclient.ItemActionSpec[A]
	for _, planned := range s.Run().ItemActions {
		spec := pluginclient.ItemActionSpec[A]{
			Name: planned.Name, Plugin: planned.Plugin, Kind: string(plannedActionKind(s, planned)), Parameters: ToStringMap(parameters[planned.Name]),
			IgnoreFailure: planned.FailurePolicy == v1alpha1.FailurePolicyIgnore,
			Resolve:       resolve(planned.Plugin, string(planned.Kind), planned.Name),
		}
		if planned.Timeout != nil {
			spec.Timeout = planned.Timeout.Duration
		}
		specs = append(specs, spec)
	}
	return specs
}

// plannedActionKind returns the kind of a planned action. Actions that an older operator planned
// have none.
func plannedActionKind(s Object, planned v1alpha1.PlannedItemAction) v1alpha1.ActionKind {
	if _, restores := s.(*v1alpha1.Restore); restores {
		return cmp.Or(planned.Kind, v1alpha1.ActionKindRestoreItem)
	}
	return cmp.Or(planned.Kind, v1alpha1.ActionKindBackupItem)
}

// ToPlannedItemActions returns the item actions of a plan as the status records them.
func ToPlannedItemActions(steps []hook.PlannedAction) []v1alpha1.PlannedItemAction {
	var planned []v1alpha1.PlannedItemAction
	for _, step := range steps {
		action := v1alpha1.PlannedItemAction{
			Name: step.Name, Kind: v1alpha1.ActionKind(step.Kind), Plugin: step.Plugin,
			Timeout: &metav1.Duration{Duration: step.Timeout}, FailurePolicy: v1alpha1.FailurePolicyFail,
			Operation: toOperationPolicy(step.Operation),
		}
		if step.IgnoreUnreachable {
			action.FailurePolicy = v1alpha1.FailurePolicyIgnore
		}
		planned = append(planned, action)
	}
	return planned
}

// toOperationPolicy returns the policy for operations as the status records it; nil if none was
// declared.
func toOperationPolicy(o hook.OperationPolicy) *v1alpha1.OperationPolicy {
	if o == (hook.OperationPolicy{}) {
		return nil
	}
	set := func(d time.Duration) *metav1.Duration {
		if d == 0 {
			return nil
		}
		return &metav1.Duration{Duration: d}
	}
	return &v1alpha1.OperationPolicy{Timeout: set(o.Timeout), StallTimeout: set(o.StallTimeout), PollInterval: set(o.PollInterval)}
}
