// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

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
	"github.com/grapnel-dev/grapnel/internal/itemaction/remote"
	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/internal/plugin/caller"
)

// Loads tells when plugins were loaded. Plugins are loaded anew by every operator.
type Loads interface {
	// Tried returns a channel that is closed once it was tried to load the plugin.
	Tried(pluginObject string) <-chan struct{}
}

// AwaitLoads waits until it was tried to load the Plugins of all planned actions: until
// then, that one can not be called says nothing. A Plugin that is gone is not waited for.
func AwaitLoads(ctx context.Context, reader client.Reader, loads Loads, planned []v1alpha1.PlannedItemAction) error {
	for _, action := range planned {
		if err := awaitLoad(ctx, reader, loads, action.Plugin); err != nil {
			return fmt.Errorf("waiting for Plugin %s to be started: %w", action.Plugin, err)
		}
	}
	return nil
}

func awaitLoad(ctx context.Context, reader client.Reader, loads Loads, name string) error {
	tried := loads.Tried(name)
	select {
	case <-tried:
		return nil
	default:
	}
	err := reader.Get(ctx, types.NamespacedName{Name: name}, &v1alpha1.Plugin{})
	if err != nil {
		return client.IgnoreNotFound(err) // nobody will load it
	}
	select {
	case <-tried:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ItemSpecs returns how the planned actions on objects are called, in order. Resolve
// returns how to reach an action of a Plugin, which need not be loaded yet; an empty kind
// means BackupItemAction in a Backup and RestoreItemAction in a Restore.
func ItemSpecs[A adapter.Selecting](s Subject, resolve func(pluginObject, kind, action string) caller.Resolve[A]) []remote.Spec[A] {
	_, parameters := s.Desired()
	var specs []remote.Spec[A]
	for _, planned := range s.Run().ItemActions {
		spec := remote.Spec[A]{
			Name: planned.Name, Plugin: planned.Plugin, Kind: string(kindOf(s, planned)), Parameters: PlainMap(parameters[planned.Name]),
			Ignore:  planned.FailurePolicy == v1alpha1.FailurePolicyIgnore,
			Resolve: resolve(planned.Plugin, string(planned.Kind), planned.Name),
		}
		if planned.Timeout != nil {
			spec.Timeout = planned.Timeout.Duration
		}
		specs = append(specs, spec)
	}
	return specs
}

// kindOf returns the kind of a planned action. Those that an older operator planned have
// none.
func kindOf(s Subject, planned v1alpha1.PlannedItemAction) v1alpha1.ActionKind {
	if _, restores := s.(*v1alpha1.Restore); restores {
		return cmp.Or(planned.Kind, v1alpha1.ActionKindRestoreItem)
	}
	return cmp.Or(planned.Kind, v1alpha1.ActionKindBackupItem)
}

// plannedItems returns what is recorded of the actions on objects.
func plannedItems(steps []hook.Step) []v1alpha1.PlannedItemAction {
	var planned []v1alpha1.PlannedItemAction
	for _, step := range steps {
		action := v1alpha1.PlannedItemAction{
			Name: step.Name, Kind: v1alpha1.ActionKind(step.Kind), Plugin: step.Plugin,
			Timeout: &metav1.Duration{Duration: step.Timeout}, FailurePolicy: v1alpha1.FailurePolicyFail,
			Operation: policyOf(step.Operation),
		}
		if step.IgnoreUnreachable {
			action.FailurePolicy = v1alpha1.FailurePolicyIgnore
		}
		planned = append(planned, action)
	}
	return planned
}

// policyOf returns what is recorded of how operations are watched; nil if nothing was
// declared.
func policyOf(o hook.Operation) *v1alpha1.OperationPolicy {
	if o == (hook.Operation{}) {
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
