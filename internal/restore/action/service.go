// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

const loadBalancerFinalizer = "service.kubernetes.io/load-balancer-cleanup"

// ServiceAction gives a Service the addresses of its new cluster.
//
// Removed: cluster IPs (except None: headless Services are deliberate), node ports and the
// health check node port that Kubernetes allocated, and IP families that no user set,
// because this cluster may not have them. Ports and families that a user set are kept;
// these are found in the last applied configuration of `kubectl apply` and in
// managedFields. With preserveNodePorts, all node ports are kept. The policy for IP
// families is kept.
//
// The finalizer of the load balancer is removed: the controller that creates load balancers
// sets it, and without such a controller it would never be removed.
type ServiceAction struct{}

var _ itemaction.RestoreAction = ServiceAction{}

// NewServiceAction returns the action.
func NewServiceAction() ServiceAction { return ServiceAction{} }

// Name implements itemaction.RestoreAction.
func (ServiceAction) Name() string { return "grapnel.dev/service" }

// AppliesTo implements itemaction.RestoreAction.
func (ServiceAction) AppliesTo(resource schema.GroupResource) bool {
	return resource == schema.GroupResource{Resource: "services"}
}

// Execute implements itemaction.RestoreAction.
func (ServiceAction) Execute(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
	object := item.Object.Object
	RemoveEntries(object, func(entry any) bool { return entry == loadBalancerFinalizer }, "metadata", "finalizers")

	spec := GetMap(object, "spec")
	if !isHeadlessService(spec) {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
	}
	by := findExplicitFields(item.Archived.Object)
	if !by.ipFamilies {
		delete(spec, "ipFamilies")
	}
	if item.Restore.PreserveNodePorts {
		return itemaction.Result{}, nil
	}
	if !by.healthCheck {
		delete(spec, "healthCheckNodePort")
	}
	for entry := range EachMap(spec, "ports") {
		if !by.hasNodePort(entry) {
			delete(entry, "nodePort")
		}
	}
	return itemaction.Result{}, nil
}

func isHeadlessService(spec map[string]any) bool {
	return Get[string](spec, "clusterIP") == "None" ||
		slices.Contains(Get[[]any](spec, "clusterIPs"), any("None"))
}
