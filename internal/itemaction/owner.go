// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package itemaction

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
func (i *RestoreItem) ArchivedController() Owner {
	controller := metav1.GetControllerOfNoCopy(i.Archived)
	if controller == nil {
		return Owner{}
	}
	return Owner{Kind: controller.Kind, Name: controller.Name}
}
