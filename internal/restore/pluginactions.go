// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
	"github.com/grapnel-dev/grapnel/internal/restore/stamp"
	"github.com/grapnel-dev/grapnel/internal/results"
)

// pluginAction is an action of the request: its calls leave this program.
type pluginAction struct {
	itemaction.RestorePluginAction
	// callSlots limits the concurrent calls to it.
	callSlots                            chan struct{}
	callCount, skippedCount, failedCount atomic.Int64
}

// resourceAction is an action of the request that may handle the objects of one kind.
type resourceAction struct {
	*pluginAction
	// matched reports that it handled one of them.
	matched atomic.Bool
}

// resolveActionSelectors requests the selectors of all actions of the request concurrently,
// before anything is written.
func (r *enginePass) resolveActionSelectors(ctx context.Context, names itemaction.ResourceResolver) error {
	errs := make([]error, len(r.req.Actions))
	var wg sync.WaitGroup
	for i, action := range r.req.Actions {
		wg.Go(func() { errs[i] = recoverPanic(func() error { return action.ResolveSelector(ctx, names) }) })
	}
	wg.Wait()
	var wrong []error
	for i, action := range r.req.Actions {
		leftOut := (*itemaction.SkippedActionError)(nil)
		switch {
		case errors.As(errs[i], &leftOut):
			r.recordRunWarning(results.ReasonItemActionSkipped, leftOut.Reason)
		case errs[i] != nil:
			wrong = append(wrong, errs[i])
		default:
			r.pluginActions = append(r.pluginActions, &pluginAction{RestorePluginAction: action, callSlots: make(chan struct{}, r.engine.opts.ActionWorkers)})
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("no object was changed: %w", errors.Join(wrong...))
	}
	return nil
}

// pluginActionsForResource returns the actions of the request that may handle a resource.
// Like Velero's, they are not called for Namespaces; otherwise objects that need a
// namespace would wait for objects that the action wants in it.
func (r *enginePass) pluginActionsForResource(resource schema.GroupResource) []*resourceAction {
	if resource == namespaceResource {
		return nil
	}
	var all []*resourceAction
	for _, action := range r.pluginActions {
		if action.AppliesTo(resource) {
			all = append(all, &resourceAction{pluginAction: action})
		}
	}
	return all
}

// matchingPluginActions returns the names of the actions of the request that match an
// object in its current form.
func (r *enginePass) matchingPluginActions(it *item) []string {
	var names []string
	for _, action := range it.kind.pluginActions {
		if action.Matches(it.object.GetNamespace(), it.object.GetLabels) {
			action.matched.Store(true)
			names = append(names, action.Name())
		}
	}
	return names
}

// canConvert reports whether an action of the request may convert an object to one that the
// cluster serves.
func (r *enginePass) canConvert(it *item) bool {
	return len(r.matchingPluginActions(it)) > 0 && !r.req.DryRun
}

// shouldExecutePluginActions reports whether the actions of the request are called for an
// object. Their effects cannot be undone, so it first looks up the object in the cluster:
// this restore may have created it before it was interrupted, or may not be allowed to
// change it.
func (r *enginePass) shouldExecutePluginActions(ctx context.Context, it *item) (bool, error) {
	names := r.matchingPluginActions(it)
	if len(names) == 0 || r.req.DryRun {
		return false, nil
	}
	if err := r.findExisting(ctx, it); err != nil || it.existing == nil {
		return err == nil, err
	}
	if r.isLeftUnchanged(it) {
		it.skippedPluginActions = names
		return false, nil
	}
	return true, nil
}

// findExisting looks up an object in the cluster, unless it is known whether it exists.
func (r *enginePass) findExisting(ctx context.Context, it *item) error {
	known := it.kind.existingListed.Load() && it.entry.selected ||
		it.target.Namespace != "" && it.unserved == nil && r.ensureNamespace(ctx, it.target.Namespace).created
	if it.existing != nil || it.unserved != nil || known {
		return nil
	}
	found, err := r.getExisting(ctx, it)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	it.existing, it.existingGVR = &found, it.target.Resource
	return nil
}

// isLeftUnchanged reports whether an existing object will not be changed.
func (r *enginePass) isLeftUnchanged(it *item) bool {
	if it.existing.Deleting {
		return false
	}
	var existing struct {
		Metadata struct{ Annotations map[string]string }
	}
	// A decoding error is reported later.
	if err := json.Unmarshal(it.existing.JSON, &existing); err != nil {
		return true
	}
	if _, own, _ := r.newStamper().Parse(it.target, existing.Metadata.Annotations[stamp.Annotation]); own {
		return true
	}
	return r.req.Policy == ExistingNone && it.resource != schema.GroupResource{Resource: "serviceaccounts"}
}

// executePluginActions calls the actions of the request for an object, one after the other.
// The result has an outcome if the object is finished.
func (r *enginePass) executePluginActions(ctx context.Context, it *item) itemResult {
	for _, action := range it.kind.pluginActions {
		if !action.Matches(it.object.GetNamespace(), it.object.GetLabels) {
			continue
		}
		action.matched.Store(true)
		action.callCount.Add(1)
		v := r.executePluginAction(ctx, it, action.pluginAction, r.newActionItem(it))
		switch v.outcome {
		case "":
			continue
		case Skipped:
			action.skippedCount.Add(1)
		default:
			action.failedCount.Add(1)
			v.err = fmt.Errorf("restore action %s: %w", action.Name(), v.err)
		}
		return v
	}
	return itemResult{}
}

// executePluginAction calls one action for an object, and restores the related items that
// it names.
func (r *enginePass) executePluginAction(ctx context.Context, it *item, action *pluginAction, shown *itemaction.RestoreItem) itemResult {
	var result itemaction.Result
	err := action.callWithSlot(ctx, func() (err error) {
		result, err = action.Execute(ctx, shown)
		return err
	})
	if err != nil {
		return failedResult(err)
	}
	it.unconditionalWarnings = append(it.unconditionalWarnings, result.Warnings...)
	if result.Skip != "" {
		r.recordOrCancelOperation(ctx, it, action, result.Operation)
		return skippedResult(result.Skip)
	}
	it.unconditionalWarnings = append(it.unconditionalWarnings, r.backupLabels.addLabels(result.BackupLabels)...)
	it.object = shown.Object
	if err := r.sanitizeReturnedObject(it); err != nil {
		return failedResult(cancelRefusedOperation(ctx, action, shown, result.Operation, err))
	}
	// From here on the operation is recorded, regardless of the object's outcome.
	r.recordOrCancelOperation(ctx, it, action, result.Operation)
	if it.existing != nil && r.req.Policy != ExistingRecreate {
		r.restoreRelatedItems(ctx, it, result.RelatedItems)
		return itemResult{} // it exists, so its related items are not needed first
	}
	there := r.restoreRelatedItems(ctx, it, result.RelatedItems)
	if err := r.waitUntilReady(ctx, it, action, result, there); err != nil {
		it.deferredErrors = append(it.deferredErrors, fmt.Errorf("restore action %s: %w", action.Name(), err))
	}
	return itemResult{}
}

// callWithSlot calls an action when a slot is free.
func (o *pluginAction) callWithSlot(ctx context.Context, make func() error) error {
	select {
	case o.callSlots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-o.callSlots }()
	return make()
}

// sanitizeReturnedObject ensures that an object returned by an action is that of its item.
func (r *enginePass) sanitizeReturnedObject(it *item) error {
	if err := action.NormalizePluginResult(it.object, it.archived, r.labels); err != nil {
		return fmt.Errorf("returned an object whose %w", err)
	}
	it.object.SetName(it.target.Name)
	if it.target.Namespace != "" {
		it.object.SetNamespace(it.target.Namespace)
	}
	action.RemoveKeys(it.object.Object, []string{"metadata", "annotations"}, stamp.Annotation)
	return r.retargetItem(it)
}

// matchedActionNames returns the names of the actions that matched objects of a kind.
func (k *kind) matchedActionNames() []string {
	var names []string
	if k.engineActionsExecuted.Load() {
		for _, action := range k.actions {
			names = append(names, action.Name())
		}
	}
	for _, action := range k.pluginActions {
		if action.matched.Load() {
			names = append(names, action.Name())
		}
	}
	if k.modified.Load() {
		names = append(names, modifierName)
	}
	return names
}

// warnAboutUncalledActions warns about actions that a dry run did not call, because their
// changes cannot be predicted.
func (r *enginePass) warnAboutUncalledActions() {
	if !r.req.DryRun {
		return
	}
	for _, action := range r.pluginActions {
		if slices.ContainsFunc(slices.Collect(maps.Values(r.kinds)), func(k *kind) bool {
			return slices.Contains(k.matchedActionNames(), action.Name())
		}) {
			r.recordRunWarning(results.ReasonItemActionSkipped, fmt.Sprintf("restore action %s of plugin %s is not called in a dry run: its changes are not predicted",
				action.Name(), action.Plugin()))
		}
	}
}

// addActionReports adds the reports of the actions of the request to a Result.
func (r *enginePass) addActionReports(out *Result) {
	for _, action := range r.pluginActions {
		out.ActionReports = append(out.ActionReports, ActionReport{
			Name: action.Name(), Plugin: action.Plugin(),
			Calls: int(action.callCount.Load()), Skipped: int(action.skippedCount.Load()), Failed: int(action.failedCount.Load()),
		})
	}
	out.Operations = r.operations.sortedOperations()
	out.BackupLabels = r.backupLabels.copyLabels()
}
