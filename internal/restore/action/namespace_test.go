// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

func TestNamespaceAction_Execute(t *testing.T) {
	resource := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	skipped := itemaction.Result{Skip: "every cluster has its own"}
	const shop = `{"metadata":{"name":"shop","labels":{"kubernetes.io/metadata.name":"shop","team":"x"}},"spec":{"finalizers":["kubernetes"]}}`
	mapped := itemaction.RestoreContext{NamespaceMapping: map[string]string{"shop": "copy", "kube-system": "old-system"}}
	RunCases(t, NewNamespaceAction(), map[string]Case{
		"kube-system":     {Resource: resource, Archived: `{"metadata":{"name":"kube-system"}}`, Result: skipped},
		"kube-public":     {Resource: resource, Archived: `{"metadata":{"name":"kube-public"}}`, Result: skipped},
		"kube-node-lease": {Resource: resource, Archived: `{"metadata":{"name":"kube-node-lease"}}`, Result: skipped},
		"default":         {Resource: resource, Archived: `{"metadata":{"name":"default"}}`, Want: `{"metadata":{"name":"default"}}`},
		"another namespace with the prefix kube-": {Resource: resource, Archived: `{"metadata":{"name":"kube-it"}}`, Want: `{"metadata":{"name":"kube-it"}}`},
		"not mapped": {Resource: resource, Archived: shop, Want: shop},
		"mapped": {
			Resource: resource, Archived: shop, Restore: mapped,
			Want: `{"metadata":{"name":"copy","labels":{"kubernetes.io/metadata.name":"copy","team":"x"}},"spec":{"finalizers":["kubernetes"]}}`,
		},
		"kube-system under another name": {
			Resource: resource, Archived: `{"metadata":{"name":"kube-system"}}`, Restore: mapped,
			Want: `{"metadata":{"name":"old-system"}}`,
		},
	})
}
