// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storagelocation

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
)

// pluginToLocations enqueues the locations of plugins when a Plugin changes: it may provide
// their store now, or no longer.
func (r *Reconciler) pluginToLocations(ctx context.Context, _ client.Object) []reconcile.Request {
	var list v1alpha1.BackupStorageLocationList
	if err := r.Client.List(ctx, &list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the locations of plugins failed; they are checked at their next interval")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if list.Items[i].Spec.Plugin != nil {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// providerState returns the state of the provider of a location, as reported by Plugins; "" if
// the location needs none.
func (r *Reconciler) providerState(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) (string, error) {
	if bsl.Spec.Plugin == nil {
		return "", nil
	}
	return location.ProviderFingerprint(ctx, r.Client, bsl.Spec.Plugin.Provider)
}

// hasProviderChanged reports whether the state of the provider has changed since the last check.
// The first reconcile of a plugin's location after a start of the operator always counts as a change.
func (r *Reconciler) hasProviderChanged(key types.NamespacedName, provider string) bool {
	known, found := r.providerStates.Load(key)
	if !found {
		return provider != ""
	}
	return known != provider
}
