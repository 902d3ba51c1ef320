// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/restoreaction"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/field"
)

const loadBalancerFinalizer = "service.kubernetes.io/load-balancer-cleanup"

// ServiceAction is the action; see New.
type ServiceAction struct{}

var _ restoreaction.Action = ServiceAction{}

// NewServiceAction returns the action.
func NewServiceAction() ServiceAction { return ServiceAction{} }

// Name implements restoreaction.Action.
func (ServiceAction) Name() string { return "grapnel.dev/service" }

// AppliesTo implements restoreaction.Action.
func (ServiceAction) AppliesTo(resource schema.GroupResource) bool {
	return resource == schema.GroupResource{Resource: "services"}
}

// Execute implements restoreaction.Action.
func (ServiceAction) Execute(_ context.Context, item *restoreaction.Item) (restoreaction.Result, error) {
	object := item.Object.Object
	field.RemoveEntries(object, func(entry any) bool { return entry == loadBalancerFinalizer }, "metadata", "finalizers")

	spec := field.GetMap(object, "spec")
	if !isHeadlessService(spec) {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
	}
	by := findExplicitFields(item.Archived.Object)
	if !by.ipFamilies {
		delete(spec, "ipFamilies")
	}
	if item.Restore.PreserveNodePorts {
		return restoreaction.Result{}, nil
	}
	if !by.healthCheck {
		delete(spec, "healthCheckNodePort")
	}
	for entry := range field.EachMap(spec, "ports") {
		if !by.nodePorts[toPortKey(entry)] {
			delete(entry, "nodePort")
		}
	}
	return restoreaction.Result{}, nil
}

func isHeadlessService(spec map[string]any) bool {
	return field.Get[string](spec, "clusterIP") == "None" ||
		slices.Contains(field.Get[[]any](spec, "clusterIPs"), any("None"))
}
