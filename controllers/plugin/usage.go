// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// hookRunToPlugin enqueues a Plugin that is being deleted when one of its HookRuns ends.
func hookRunToPlugin(_ context.Context, obj client.Object) []reconcile.Request {
	run, ok := obj.(*v1alpha1.HookRun)
	if !ok || (run.Status.CompletionTimestamp == nil && run.DeletionTimestamp.IsZero()) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: run.Spec.PluginRef.Name}}}
}

// operationToPlugin enqueues a Plugin when one of its operations ends.
func operationToPlugin(_ context.Context, obj client.Object) []reconcile.Request {
	operation, ok := obj.(*v1alpha1.AsyncOperation)
	if !ok || (!operation.Ended() && operation.DeletionTimestamp.IsZero()) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: operation.Spec.PluginRef.Name}}}
}

// countOpenOperations returns the number of unfinished operations of a Plugin: work that may
// end with its process.
func (r *Reconciler) countOpenOperations(ctx context.Context, name string) (open int, err error) {
	var operations v1alpha1.AsyncOperationList
	if err := r.Client.List(ctx, &operations, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("listing the operations of Plugin %s: %w", name, err)
	}
	for i := range operations.Items {
		if o := &operations.Items[i]; o.Spec.PluginRef.Name == name && !o.Ended() {
			open++
		}
	}
	return open, nil
}

// runToPlugins enqueues the Plugins whose item actions a run had planned when the run ends.
func runToPlugins(_ context.Context, obj client.Object) []reconcile.Request {
	run, ok := obj.(runObject)
	if !ok || (run.Run().CompletionTimestamp == nil && run.GetDeletionTimestamp().IsZero()) {
		return nil
	}
	var requests []reconcile.Request
	for _, planned := range run.Run().ItemActions {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: planned.Plugin}})
	}
	return requests
}

// runObject is a Backup, a Restore or a DeletionRun.
type runObject interface {
	client.Object
	Run() *v1alpha1.RunStatus
}

// listObjectsUsingPlugin returns the unfinished objects that need the Plugin: HookRuns, and
// Backups, Restores and DeletionRuns that call its item actions.
func (r *Reconciler) listObjectsUsingPlugin(ctx context.Context, name string) ([]string, error) {
	var (
		hookRuns  v1alpha1.HookRunList
		backups   v1alpha1.BackupList
		restores  v1alpha1.RestoreList
		deletions v1alpha1.DeletionRunList
		users     []string
	)
	for _, list := range []client.ObjectList{&hookRuns, &backups, &restores, &deletions} {
		if err := r.Client.List(ctx, list); err != nil {
			return nil, fmt.Errorf("listing the objects that need Plugin %s: %w", name, err)
		}
	}
	for _, run := range hookRuns.Items {
		if run.Spec.PluginRef.Name == name && (run.Status.CompletionTimestamp == nil || run.Status.Removing) {
			users = append(users, "HookRun "+run.Name)
		}
	}
	for i := range backups.Items {
		if isUsingPlugin(&backups.Items[i], name) {
			users = append(users, "Backup "+backups.Items[i].Name)
		}
	}
	for i := range restores.Items {
		if isUsingPlugin(&restores.Items[i], name) {
			users = append(users, "Restore "+restores.Items[i].Name)
		}
	}
	for i := range deletions.Items {
		if isUsingPlugin(&deletions.Items[i], name) {
			users = append(users, "DeletionRun "+deletions.Items[i].Name)
		}
	}
	slices.Sort(users) // a cache has no order, and the status must be stable
	return users, nil
}

// isUsingPlugin reports whether a run is unfinished and calls item actions of a Plugin.
func isUsingPlugin(run runObject, plugin string) bool {
	return run.Run().CompletionTimestamp == nil && slices.ContainsFunc(run.Run().ItemActions,
		func(planned v1alpha1.PlannedItemAction) bool { return planned.Plugin == plugin })
}
