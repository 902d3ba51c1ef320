// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// MergeAccount returns existing with the missing parts of archived, and whether there are
// any: labels, annotations, secrets, imagePullSecrets, and automountServiceAccountToken if
// existing does not set it. If both set a value, that of existing is kept. The labels of
// the restore are not added, because it did not create the account. Neither argument is
// changed.
//
// archived is the account as it would be created, after the actions. The result keeps the
// resourceVersion of existing.
func MergeAccount(existing, archived *unstructured.Unstructured) (*unstructured.Unstructured, bool) {
	merged := existing.DeepCopy()
	changed := false
	for _, path := range [][]string{{"metadata", "labels"}, {"metadata", "annotations"}} {
		changed = addMissingKeys(merged.Object, archived.Object, path) || changed
	}
	for _, key := range []string{"secrets", "imagePullSecrets"} {
		changed = addMissingReferences(merged.Object, archived.Object, key) || changed
	}
	const automount = "automountServiceAccountToken"
	if mount, stated := archived.Object[automount].(bool); stated && merged.Object[automount] == nil {
		merged.Object[automount] = mount
		changed = true
	}
	return merged, changed
}

// addMissingKeys adds the keys that the map at a path lacks.
func addMissingKeys(to, from map[string]any, path []string) bool {
	missing := map[string]any{}
	for key, value := range GetMap(from, path...) {
		ours := key == LabelBackupName || key == LabelRestoreName
		if !ours && !Has(to, append(slices.Clone(path), key)...) {
			missing[key] = value
		}
	}
	for key, value := range missing {
		if err := unstructured.SetNestedField(to, value, append(slices.Clone(path), key)...); err != nil {
			return false // the API server returned something else
		}
	}
	return len(missing) > 0
}

// addMissingReferences adds the references that a list lacks, by their names.
func addMissingReferences(to, from map[string]any, key string) bool {
	has := map[string]bool{}
	for reference := range EachMap(to, key) {
		has[Get[string](reference, "name")] = true
	}
	list := Get[[]any](to, key)
	before := len(list)
	for reference := range EachMap(from, key) {
		if name := Get[string](reference, "name"); name != "" && !has[name] {
			has[name] = true
			list = append(list, runtime.DeepCopyJSON(reference))
		}
	}
	if len(list) == before {
		return false
	}
	to[key] = list
	return true
}
