// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// otherFieldManagers returns the writers of the field that quiesces w, without Grapnel.
func otherFieldManagers(w Workload) []FieldManager {
	var owners []FieldManager
	for _, entry := range quiesceFieldWriters(w) {
		if entry.Manager != FieldOwner {
			owners = append(owners, FieldManager{
				Manager: entry.Manager, Operation: entry.Operation, Subresource: entry.Subresource, APIVersion: entry.APIVersion, Time: entry.Time,
			})
		}
	}
	return owners
}

// ManagedFieldsPatch returns the merge patch that removes Grapnel from the managedFields of an
// object after it was unquiesced, and restores the previous managers. Until then the API server
// rejects other managers that apply another number with server-side apply. No patch is needed if
// Grapnel is not a manager, or is the only one. What others wrote since is not reassigned. No patch
// is returned for a workload that is quiesced again: its managedFields are still needed.
func ManagedFieldsPatch(o metav1.Object, kind WorkloadKind, owners []FieldManager) (patch []byte, needed bool) {
	if _, again := o.GetAnnotations()[Annotation]; again {
		return nil, false
	}
	var others []metav1.ManagedFieldsEntry
	ours := false
	for _, entry := range o.GetManagedFields() {
		if entry.Manager != FieldOwner {
			others = append(others, entry)
			continue
		}
		ours = ours || (entry.FieldsV1 != nil && hasFieldPath(entry.FieldsV1.GetRawBytes(), kind.quiesceFieldPath()))
	}
	if !ours {
		owners = nil
	}
	if len(others) == len(o.GetManagedFields()) {
		return nil, false
	}
	for _, owner := range owners {
		others = owner.addFieldEntry(others, kind.quiesceFieldPath())
	}
	if len(others) == 0 {
		return nil, false
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": o.GetUID(), "resourceVersion": o.GetResourceVersion(), "managedFields": others,
	}})
	return patch, err == nil
}

// addFieldEntry returns the entries with the field at a path added to that of the manager, whose
// entry may have been removed with its last field.
func (o FieldManager) addFieldEntry(entries []metav1.ManagedFieldsEntry, path []string) []metav1.ManagedFieldsEntry {
	i := slices.IndexFunc(entries, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == o.Manager && e.Operation == o.Operation && e.Subresource == o.Subresource && e.APIVersion == o.APIVersion
	})
	if i < 0 {
		return append(entries, metav1.ManagedFieldsEntry{
			Manager: o.Manager, Operation: o.Operation, Subresource: o.Subresource, APIVersion: o.APIVersion, Time: o.Time,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(withFieldPath(nil, path))),
		})
	}
	raw := []byte(nil)
	if entries[i].FieldsV1 != nil {
		raw = entries[i].FieldsV1.GetRawBytes()
	}
	entries[i].FieldsV1 = metav1.NewFieldsV1(string(withFieldPath(raw, path)))
	return entries
}

// withFieldPath returns a set of fields in the fieldsV1 format with the path added.
func withFieldPath(raw []byte, path []string) []byte {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &fields) != nil || fields == nil {
		fields = map[string]json.RawMessage{}
	}
	if len(path) > 0 {
		name := "f:" + path[0]
		fields[name] = withFieldPath(fields[name], path[1:])
	}
	encoded, err := json.Marshal(fields)
	if err != nil {
		panic(err) // cannot fail: it came from JSON
	}
	return encoded
}
