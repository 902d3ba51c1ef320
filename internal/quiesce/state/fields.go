// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// FieldOwner is the field manager of every write. Its name must stay: whether somebody
	// else changed a workload meanwhile is told by it.
	FieldOwner = "grapnel-quiesce"
	// ancientManager is the manager into which the API server merges the oldest ones of an object
	// that has too many; it may be anybody.
	ancientManager = "ancient-changes"
	// maxManagerNameLength is the longest name of a manager that is shown.
	maxManagerNameLength = 80
)

// quiesceFieldWriters returns who wrote the field that quiesces w, the last one last. It is empty if that
// is not known.
func quiesceFieldWriters(w Workload) []metav1.ManagedFieldsEntry {
	return fieldWriters(w, w.Kind.quiesceFieldPath())
}

// fieldWriters returns who wrote the field at a path.
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

// hasFieldPath says whether a set of fields in the form of fieldsV1 holds the one at path.
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

// lastWriterName names who wrote the field last.
func lastWriterName(w Workload) string {
	found := quiesceFieldWriters(w)
	if len(found) == 0 {
		return "somebody whom the API server does not name"
	}
	last := found[len(found)-1]
	return quoteTruncated(last.Manager)
}

func quoteTruncated(name string) string {
	if len(name) > maxManagerNameLength {
		name = strings.ToValidUTF8(name[:maxManagerNameLength], "") + "…"
	}
	return strconv.Quote(name)
}

// overwriterSinceQuiesce says whether somebody else wrote the field since Grapnel did, and who. If it is
// not known who wrote it, nobody did: a workload that stays down is the greater harm. The node
// selector of a DaemonSet is one field, in which others may write beside Grapnel.
func overwriterSinceQuiesce(w Workload) (string, bool) {
	found := quiesceFieldWriters(w)
	switch {
	case w.Kind == DaemonSet, hasGrapnelEntry(found):
		return "", false
	case len(found) > 0:
		return lastWriterName(w), true
	}
	// The state and the field were written together. Who scales to 0 by the scale subresource
	// (kubectl scale) takes the field away and is not noted: in a Scale, 0 is no value.
	return lastWriterName(w), hasManagerEntry(fieldWriters(w, annotationPath), FieldOwner)
}

// overwriterSinceRestore says whether somebody else wrote the field after the state came to the object,
// whoever brought that, and who. If it is not known, nobody did. Who made the object wrote the field,
// too: if nobody is noted for it any more, somebody took it away by the scale subresource.
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

// immutableFieldPath is a field that nobody can change: who is noted for it made the object.
var immutableFieldPath = []string{"spec", "selector"}

// annotationPath is the field that has the state.
var annotationPath = []string{"metadata", "annotations", Annotation}

// isStateWrittenHere says whether the state of a workload was written by Grapnel when it quiesced it.
// A restore, or kubectl rollout undo, brings one back to the very object that it is about,
// when its holders may be gone for long. If it is not known who wrote it, Grapnel did.
func isStateWrittenHere(w Workload) bool {
	found := fieldWriters(w, annotationPath)
	return len(found) == 0 || hasGrapnelEntry(found)
}

// hasGrapnelEntry says whether Grapnel is, or may be, among those who wrote a field.
func hasGrapnelEntry(by []metav1.ManagedFieldsEntry) bool {
	return hasManagerEntry(by, FieldOwner, ancientManager)
}

func hasManagerEntry(by []metav1.ManagedFieldsEntry, names ...string) bool {
	return slices.ContainsFunc(by, func(entry metav1.ManagedFieldsEntry) bool { return slices.Contains(names, entry.Manager) })
}
