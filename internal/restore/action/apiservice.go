// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// automanaged is on APIServices of built-in groups and of CRDs.
const automanaged = "kube-aggregator.kubernetes.io/automanaged"

// APIServiceAction skips the APIServices that API servers register themselves, and
// applies the namespace mapping to the others.
type APIServiceAction struct{}

var _ itemaction.RestoreAction = APIServiceAction{}

// NewAPIServiceAction returns the action.
func NewAPIServiceAction() APIServiceAction { return APIServiceAction{} }

// Name implements itemaction.RestoreAction.
func (APIServiceAction) Name() string { return "grapnel.dev/apiservice" }

// AppliesTo implements itemaction.RestoreAction.
func (APIServiceAction) AppliesTo(resource schema.GroupResource) bool {
	return resource == schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}
}

// Execute implements itemaction.RestoreAction.
func (APIServiceAction) Execute(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
	if Has(item.Archived.Object, "metadata", "labels", automanaged) {
		return itemaction.Result{Skip: "the API server registers it itself"}, nil
	}
	var result itemaction.Result
	if warning := mapServiceNamespace(item.Restore, GetMap(item.Object.Object, "spec", "service")); warning != "" {
		result.Warnings = append(result.Warnings, warning)
	}
	return result, nil
}
