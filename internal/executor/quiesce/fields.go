// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"encoding/json"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// quiesceFieldWriters returns the writers of the field that quiesces w, the last one last. It is
// empty if they are unknown.
func quiesceFieldWriters(w Workload) []metav1.ManagedFieldsEntry {
	return fieldWriters(w, w.Kind.quiesceFieldPath())
}

// fieldWriters returns the writers of the field at a path.
func fieldWriters(w Workload, path []string) []metav1.ManagedFieldsEntry {
	var found []metav1.ManagedFieldsEntry
	for _, entry := range w.ManagedFields {
		if entry.FieldsV1 != nil && hasFieldPath(entry.FieldsV1.GetRawBytes(), path) {
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

// hasFieldPath reports whether a set of fields in the fieldsV1 format contains the path.
func hasFieldPath(raw []byte, path []string) bool {
	for _, name := range path {
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil {
			return false
		}
		next, found := fields["f:"+name]
		if !found {
			return false
		}
		raw = next
	}
	return true
}

// lastWriterName returns the name of the last writer of the field.
func lastWriterName(w Workload) string {
	found := quiesceFieldWriters(w)
	if len(found) == 0 {
		return "an unknown writer"
	}
	last := found[len(found)-1]
	return quoteTruncated(last.Manager)
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
		return lastWriterName(w), came.FieldsV1 != nil && hasFieldPath(came.FieldsV1.GetRawBytes(), immutableFieldPath)
	}
	last := found[len(found)-1]
	later := last.Time != nil && came.Time != nil && last.Time.After(came.Time.Time)
	return lastWriterName(w), later && !hasManagerEntry(found, came.Manager)
}

// immutableFieldPath is an immutable field: its manager created the object.
var immutableFieldPath = []string{"spec", "selector"}

// annotationPath is the field that holds the state.
var annotationPath = []string{"metadata", "annotations", Annotation}

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
