// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"encoding/json"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/text"
)

const (
	// FieldOwner is the field manager of every write. The name must not change: it reveals whether
	// others changed a workload in the meantime.
	FieldOwner = "grapnel-quiesce"
	// ancientManager is the manager into which the API server merges the oldest entries of an
	// object that has too many. It may stand for any writer.
	ancientManager = "ancient-changes"
	// maxManagerNameLength is the maximum length of a manager name in a message.
	maxManagerNameLength = 80
)

var (
	// annotationPath is the field that holds the state.
	annotationPath = []string{"f:metadata", "f:annotations", "f:" + Annotation}
	// immutableFieldPath is an immutable field: its manager created the object.
	immutableFieldPath = []string{"f:spec", "f:selector"}
)

// quiesceFieldPath returns the field that quiescing changes.
func (k WorkloadKind) quiesceFieldPath() []string {
	switch k {
	case CronJob, Job:
		return []string{"f:spec", "f:suspend"}
	case DaemonSet:
		return []string{"f:spec", "f:template", "f:spec", "f:nodeSelector"}
	default:
		return []string{"f:spec", "f:replicas"}
	}
}

// quiesceFieldWriters returns the writers of the field that quiesces w, the last one last. It is
// empty if they are unknown.
func quiesceFieldWriters(w Workload) []metav1.ManagedFieldsEntry {
	return fieldWriters(w, w.Kind.quiesceFieldPath())
}

// fieldWriters returns the writers of the field at a path.
func fieldWriters(w Workload, path []string) []metav1.ManagedFieldsEntry {
	var found []metav1.ManagedFieldsEntry
	for _, entry := range w.ManagedFields {
		if hasFieldPath(decodeFields(entry), path) {
			found = append(found, entry)
		}
	}
	slices.SortStableFunc(found, func(a, b metav1.ManagedFieldsEntry) int {
		if a.Time == nil || b.Time == nil {
			return 0
		}
		return a.Time.Compare(b.Time.Time)
	})
	return found
}

// decodeFields returns the fields of an entry in the fieldsV1 format, or none if they are not valid.
func decodeFields(entry metav1.ManagedFieldsEntry) map[string]any {
	fields := map[string]any{}
	if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil || fields == nil {
		return map[string]any{}
	}
	return fields
}

func hasFieldPath(fields map[string]any, path []string) bool {
	_, found, err := unstructured.NestedFieldNoCopy(fields, path...)
	return found && err == nil
}

// lastWriterName returns the name of the last writer of the field.
func lastWriterName(w Workload) string {
	found := quiesceFieldWriters(w)
	if len(found) == 0 {
		return "an unknown writer"
	}
	return quoteTruncated(found[len(found)-1].Manager)
}

func quoteTruncated(name string) string {
	return strconv.Quote(text.Truncate(name, maxManagerNameLength))
}

// overwriterSinceQuiesce reports whether others wrote the field since Grapnel did, and who. If the
// writer is unknown, it returns false: a workload that stays down is the greater harm. The node
// selector of a DaemonSet is one field, in which others may write beside Grapnel.
func overwriterSinceQuiesce(w Workload) (string, bool) {
	found := quiesceFieldWriters(w)
	switch {
	case w.Kind == DaemonSet, hasGrapnelEntry(found):
		return "", false
	case len(found) > 0:
		return lastWriterName(w), true
	}
	// The state and the field were written together. Whoever scales to 0 through the scale
	// subresource (kubectl scale) takes over the field and is not recorded: in a Scale, 0 is no
	// value.
	return lastWriterName(w), hasManagerEntry(fieldWriters(w, annotationPath), FieldOwner)
}

// overwriterSinceRestore reports whether others wrote the field after the state was written to the
// object, and who. It does not matter who wrote the state. If the writer is unknown, it returns
// false. The creator of the object wrote the field, too: if no manager is recorded for the field,
// it was taken over through the scale subresource.
func overwriterSinceRestore(w Workload) (string, bool) {
	found, by := quiesceFieldWriters(w), fieldWriters(w, annotationPath)
	if w.Kind == DaemonSet || len(by) == 0 {
		return "", false
	}
	came := by[len(by)-1]
	if len(found) == 0 {
		return lastWriterName(w), hasFieldPath(decodeFields(came), immutableFieldPath)
	}
	last := found[len(found)-1]
	later := last.Time != nil && came.Time != nil && last.Time.After(came.Time.Time)
	return lastWriterName(w), later && !hasManagerEntry(found, came.Manager)
}

// isStateWrittenHere reports whether Grapnel wrote the state of a workload when it quiesced it. A
// restore, or kubectl rollout undo, copies a state back to the object that it belongs to, when its
// holders may no longer exist. If the writer is unknown, it returns true.
func isStateWrittenHere(w Workload) bool {
	found := fieldWriters(w, annotationPath)
	return len(found) == 0 || hasGrapnelEntry(found)
}

// hasGrapnelEntry reports whether Grapnel is, or may be, among the writers of a field.
func hasGrapnelEntry(by []metav1.ManagedFieldsEntry) bool {
	return hasManagerEntry(by, FieldOwner, ancientManager)
}

func hasManagerEntry(by []metav1.ManagedFieldsEntry, names ...string) bool {
	return slices.ContainsFunc(by, func(entry metav1.ManagedFieldsEntry) bool { return slices.Contains(names, entry.Manager) })
}

// otherFieldManagers returns the writers of the field that quiesces w, without Grapnel.
func otherFieldManagers(w Workload) []metav1.ManagedFieldsEntry {
	var managers []metav1.ManagedFieldsEntry
	for _, entry := range quiesceFieldWriters(w) {
		if entry.Manager != FieldOwner {
			entry.FieldsType, entry.FieldsV1 = "", nil
			managers = append(managers, entry)
		}
	}
	return managers
}

// ManagedFieldsPatch returns the merge patch that removes Grapnel from the managedFields of an
// object after it was unquiesced, and restores the previous managers. Until then the API server
// rejects other managers that apply another number with server-side apply. No patch is needed if
// Grapnel is not a manager, or is the only one. What others wrote since is not reassigned. No patch
// is returned for a workload that is quiesced again: its managedFields are still needed.
func ManagedFieldsPatch(o metav1.Object, kind WorkloadKind, managers []metav1.ManagedFieldsEntry) (patch []byte, needed bool) {
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
		ours = ours || hasFieldPath(decodeFields(entry), kind.quiesceFieldPath())
	}
	if len(others) == len(o.GetManagedFields()) {
		return nil, false
	}
	if ours {
		for _, manager := range managers {
			others = withFieldManager(others, manager, kind.quiesceFieldPath())
		}
	}
	if len(others) == 0 {
		return nil, false
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": o.GetUID(), "resourceVersion": o.GetResourceVersion(), "managedFields": others,
	}})
	return patch, err == nil
}

// withFieldManager returns the entries with the field at a path added to that of the manager, whose
// entry may have been removed with its last field.
func withFieldManager(entries []metav1.ManagedFieldsEntry, manager metav1.ManagedFieldsEntry, path []string) []metav1.ManagedFieldsEntry {
	i := slices.IndexFunc(entries, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == manager.Manager && e.Operation == manager.Operation && e.Subresource == manager.Subresource &&
			e.APIVersion == manager.APIVersion
	})
	if i < 0 {
		manager.FieldsType, manager.FieldsV1 = "FieldsV1", nil
		entries, i = append(entries, manager), len(entries)
	}
	fields := decodeFields(entries[i])
	if hasFieldPath(fields, path) || unstructured.SetNestedMap(fields, map[string]any{}, path...) != nil {
		return entries
	}
	encoded, err := json.Marshal(fields)
	if err != nil {
		panic(err) // cannot fail: it came from JSON
	}
	entries[i].FieldsV1 = metav1.NewFieldsV1(string(encoded))
	return entries
}
