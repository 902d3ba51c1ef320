// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// nameLabel has the name of its Namespace; the API server sets it.
const nameLabel = "kubernetes.io/metadata.name"

// NamespaceAction skips the Namespaces that every cluster has (kube-system, kube-public,
// kube-node-lease): their labels and annotations belong to the platform of this cluster.
// Their contents are restored as selected. A mapped Namespace gets the label with its new
// name.
//
// Namespace default is restored like any other: it exists, so the policy for existing
// resources applies.
type NamespaceAction struct{}

var _ itemaction.RestoreAction = NamespaceAction{}

// NewNamespaceAction returns the action.
func NewNamespaceAction() NamespaceAction { return NamespaceAction{} }

// Name implements itemaction.RestoreAction.
func (NamespaceAction) Name() string { return "grapnel.dev/namespace" }

// AppliesTo implements itemaction.RestoreAction.
func (NamespaceAction) AppliesTo(resource schema.GroupResource) bool {
	return resource == schema.GroupResource{Resource: "namespaces"}
}

// Execute implements itemaction.RestoreAction.
func (NamespaceAction) Execute(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
	name := item.Object.GetName()
	switch name {
	case "kube-system", "kube-public", "kube-node-lease":
		return itemaction.Result{Skip: "every cluster has its own"}, nil
	}
	if labels := GetMap(item.Object.Object, "metadata", "labels"); Has(labels, nameLabel) {
		labels[nameLabel] = name
	}
	return itemaction.Result{}, nil
}
