// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"slices"
	"unique"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// CompactForCache makes an AsyncOperation smaller for the cache, which may hold ten thousand of
// them for hours. It interns strings that many of them share, clips slices, and drops
// managedFields. It is a cache transform, and does not change objects of other types.
func CompactForCache(object any) (any, error) {
	op, ok := object.(*v1alpha1.AsyncOperation)
	if !ok {
		return object, nil
	}
	op.ManagedFields = nil
	op.Finalizers = slices.Clone(op.Finalizers)
	op.OwnerReferences = slices.Clone(op.OwnerReferences)
	op.Spec.PostOperationItems = slices.Clone(op.Spec.PostOperationItems)
	op.Status.Conditions = slices.Clone(op.Status.Conditions)
	internStrings(&op.APIVersion, &op.Kind, &op.Namespace)
	for i := range op.Finalizers {
		internStrings(&op.Finalizers[i])
	}
	for i := range op.OwnerReferences {
		owner := &op.OwnerReferences[i]
		internStrings(&owner.APIVersion, &owner.Kind, &owner.Name, (*string)(&owner.UID))
	}
	if op.Labels != nil {
		labels := make(map[string]string, len(op.Labels))
		for key, value := range op.Labels {
			internStrings(&key, &value)
			labels[key] = value
		}
		op.Labels = labels
	}
	spec, parent := &op.Spec, &op.Spec.ParentRef
	internStrings((*string)(&spec.Kind), &spec.ActionName, &spec.PluginRef.Name, (*string)(&spec.DesiredState), &spec.CancelReason,
		&parent.Kind, &parent.Name, &parent.UID)
	internItemStrings(&spec.Item)
	for i := range spec.PostOperationItems {
		internItemStrings(&spec.PostOperationItems[i])
	}
	internStrings((*string)(&op.Status.Phase), &op.Status.Message)
	for i := range op.Status.Conditions {
		c := &op.Status.Conditions[i]
		internStrings(&c.Type, (*string)(&c.Status), &c.Reason, &c.Message)
	}
	if p := op.Status.Progress; p != nil {
		internStrings(&p.Units, &p.Description, &p.Warning)
	}
	return op, nil
}

// internItemStrings interns all of an item but its name.
func internItemStrings(item *v1alpha1.OperationItem) {
	internStrings(&item.Group, &item.Version, &item.Resource, &item.Namespace)
}

// internStrings replaces strings with their interned copies.
func internStrings(texts ...*string) {
	for _, text := range texts {
		*text = unique.Make(*text).Value()
	}
}
