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
	// ancient is the manager into which the API server merges the oldest ones of an object
	// that has too many; it may be anybody.
	ancient = "ancient-changes"
	// maxName is the longest name of a manager that is shown.
	maxName = 80
)

// writers returns who wrote the field that quiesces w, the last one last. It is empty if that
// is not known.
func writers(w Workload) []metav1.ManagedFieldsEntry { return writersOf(w, w.Kind.path()) }

// writersOf returns who wrote the field at a path.
func writersOf(w Workload, path []string) []metav1.ManagedFieldsEntry {
	var found []metav1.ManagedFieldsEntry
	for _, entry := range w.Fields {
		if entry.FieldsV1 != nil && has(entry.FieldsV1.GetRawBytes(), path) {
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

// has says whether a set of fields in the form of fieldsV1 holds the one at path.
func has(raw []byte, path []string) bool {
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

// writer names who wrote the field last.
func writer(w Workload) string {
	found := writers(w)
	if len(found) == 0 {
		return "somebody whom the API server does not name"
	}
	last := found[len(found)-1]
	return quote(last.Manager)
}

func quote(name string) string {
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "") + "…"
	}
	return strconv.Quote(name)
}

// takenOver says whether somebody else wrote the field since Grapnel did, and who. If it is
// not known who wrote it, nobody did: a workload that stays down is the greater harm. The node
// selector of a DaemonSet is one field, in which others may write beside Grapnel.
func takenOver(w Workload) (string, bool) {
	found := writers(w)
	switch {
	case w.Kind == DaemonSet, isOurs(found):
		return "", false
	case len(found) > 0:
		return writer(w), true
	}
	// The state and the field were written together. Who scales to 0 by the scale subresource
	// (kubectl scale) takes the field away and is not noted: in a Scale, 0 is no value.
	return writer(w), isManager(writersOf(w, annotationPath), FieldOwner)
}

// takenSince says whether somebody else wrote the field after the state came to the object,
// whoever brought that, and who. If it is not known, nobody did. Who made the object wrote the field,
// too: if nobody is noted for it any more, somebody took it away by the scale subresource.
func takenSince(w Workload) (string, bool) {
	found, by := writers(w), writersOf(w, annotationPath)
	if w.Kind == DaemonSet || len(by) == 0 {
		return "", false
	}
	came := by[len(by)-1]
	if len(found) == 0 {
		return writer(w), came.FieldsV1 != nil && has(came.FieldsV1.GetRawBytes(), onlyCreated)
	}
	last := found[len(found)-1]
	later := last.Time != nil && came.Time != nil && last.Time.After(came.Time.Time)
	return writer(w), later && !isManager(found, came.Manager)
}

// onlyCreated is a field that nobody can change: who is noted for it made the object.
var onlyCreated = []string{"spec", "selector"}

// annotationPath is the field that has the state.
var annotationPath = []string{"metadata", "annotations", Annotation}

// writtenHere says whether the state of a workload was written by Grapnel when it quiesced it.
// A restore, or kubectl rollout undo, brings one back to the very object that it is about,
// when its holders may be gone for long. If it is not known who wrote it, Grapnel did.
func writtenHere(w Workload) bool {
	found := writersOf(w, annotationPath)
	return len(found) == 0 || isOurs(found)
}

// isOurs says whether Grapnel is, or may be, among those who wrote a field.
func isOurs(by []metav1.ManagedFieldsEntry) bool { return isManager(by, FieldOwner, ancient) }

func isManager(by []metav1.ManagedFieldsEntry, names ...string) bool {
	return slices.ContainsFunc(by, func(entry metav1.ManagedFieldsEntry) bool { return slices.Contains(names, entry.Manager) })
}
