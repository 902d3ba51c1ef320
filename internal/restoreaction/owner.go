// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restoreaction

import "github.com/grapnel-dev/grapnel/internal/restoreaction/field"

// Owner is the controller of an object in its old cluster.
type Owner struct {
	// Kind of the owner, for example ReplicaSet.
	Kind string
	// Name of the owner, which is in the namespace of the object unless it is
	// cluster-scoped.
	Name string
}

// ArchivedController returns the controller of the archived object, and a zero Owner if
// there was none. The object to be created has no owners.
func (i *Item) ArchivedController() Owner {
	for owner := range field.EachMap(i.Archived.Object, "metadata", "ownerReferences") {
		if field.Get[bool](owner, "controller") {
			return Owner{Kind: field.Get[string](owner, "kind"), Name: field.Get[string](owner, "name")}
		}
	}
	return Owner{}
}
