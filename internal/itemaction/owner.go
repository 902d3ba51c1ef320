// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package itemaction

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Owner is the controller of an object in its old cluster.
type Owner struct {
	// Kind of the owner, for example ReplicaSet.
	Kind string
	// Name of the owner, which is in the namespace of the object unless it is
	// cluster-scoped.
	Name string
}

// ArchivedController returns the controller of the archived object, and a zero Owner if
// there was none. The object to be created has no owners. Malformed entries are skipped:
// metav1.GetControllerOf would ignore the whole list for one of them, which an archive may have.
func (i *RestoreItem) ArchivedController() Owner {
	references, _, _ := unstructured.NestedFieldNoCopy(i.Archived.Object, "metadata", "ownerReferences")
	entries, _ := references.([]any)
	for _, entry := range entries {
		reference, _ := entry.(map[string]any)
		if isController, _ := reference["controller"].(bool); isController {
			kind, _ := reference["kind"].(string)
			name, _ := reference["name"].(string)
			return Owner{Kind: kind, Name: name}
		}
	}
	return Owner{}
}
