// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

const (
	sliceManager     = "endpointslice.kubernetes.io/managed-by"
	endpointsManager = "endpoints.kubernetes.io/managed-by"
	// lastChange is set by the controller of clusters before 1.33.
	lastChange = "endpoints.kubernetes.io/last-change-trigger-time"
)

var (
	endpoints      = schema.GroupResource{Resource: "endpoints"}
	endpointSlices = schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}
)

// EndpointsAction skips the Endpoints and EndpointSlices that a controller creates for a
// Service with a selector. The controller of this cluster creates new ones, with the
// addresses of the pods that run here; until then the old addresses could belong to
// anything. Those that users created for a Service without a selector are restored, and
// mirrored again.
type EndpointsAction struct{}

var _ itemaction.RestoreAction = EndpointsAction{}

// NewEndpointsAction returns the action.
func NewEndpointsAction() EndpointsAction { return EndpointsAction{} }

// Name implements itemaction.RestoreAction.
func (EndpointsAction) Name() string { return "grapnel.dev/endpoints" }

// AppliesTo implements itemaction.RestoreAction.
func (EndpointsAction) AppliesTo(resource schema.GroupResource) bool {
	return resource == endpoints || resource == endpointSlices
}

// Execute implements itemaction.RestoreAction.
func (EndpointsAction) Execute(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
	if isControllerManaged(item.Archived.Object) {
		return itemaction.Result{Skip: "a controller creates it for its Service"}, nil
	}
	return itemaction.Result{}, nil
}

func isControllerManaged(object map[string]any) bool {
	switch Get[string](object, "metadata", "labels", sliceManager) {
	case "endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io":
		return true
	}
	return Get[string](object, "metadata", "labels", endpointsManager) == "endpoint-controller" ||
		Has(object, "metadata", "annotations", lastChange)
}
