// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/restore/action"
	"github.com/grapnel-dev/grapnel/internal/restore/stamp"
)

// ignoredMetadata are labels and annotations about the origin of an object, not its state.
var ignoredMetadata = map[string]bool{
	action.LabelBackupName:  true,
	action.LabelRestoreName: true,
	stamp.Annotation:        true,
	// The API server sets it.
	"kubernetes.io/metadata.name": true,
	"velero.io/backup-name":       true,
	"velero.io/restore-name":      true,

	"deployment.kubernetes.io/desired-replicas":        true,
	"deployment.kubernetes.io/max-replicas":            true,
	"deployment.kubernetes.io/revision":                true,
	"deployment.kubernetes.io/revision-history":        true,
	"deprecated.daemonset.template.generation":         true,
	"endpoints.kubernetes.io/last-change-trigger-time": true,
	"control-plane.alpha.kubernetes.io/leader":         true,
	"pv.kubernetes.io/bound-by-controller":             true,
}

// clusterFilledFields are fields that a cluster sets after an object was created, by
// resource. This includes all fields below them.
var clusterFilledFields = map[schema.GroupResource][]string{
	{Resource: "namespaces"}:             {".spec"},
	{Resource: "persistentvolumeclaims"}: {".spec.volumeName"},
	{Resource: "persistentvolumes"}:      {".spec.claimRef"},
}

// caBundle is set by certificate managers, at any path.
const caBundle = "caBundle"

// Objects are the three forms of one object that determine a difference.
type Objects struct {
	// Resource of all of them.
	Resource schema.GroupResource
	// Desired is the object as a restore would create it.
	Desired map[string]any
	// Existing is the object in the cluster.
	Existing map[string]any
	// Archived is the object in the archive, in the version of the others.
	Archived map[string]any
}

// MergePatch returns the JSON merge patch that changes the existing object to the desired
// one, nil if there is no relevant difference. It shares values with its arguments.
func MergePatch(o Objects) map[string]any {
	d := differ{filledPrefixes: clusterFilledFields[o.Resource]}
	patch := map[string]any{}
	for key := range unionKeys(o.Desired, o.Existing) {
		switch key {
		case "apiVersion", "kind", "metadata", "status":
			continue
		}
		d.diffField(patch, key, o.Desired, o.Existing, o.Archived, "")
	}
	metadata := map[string]any{}
	for _, key := range []string{"labels", "annotations"} {
		changed := map[string]any{}
		desired, existing, archived := metadataEntries(o.Desired, key), metadataEntries(o.Existing, key), metadataEntries(o.Archived, key)
		for name := range unionKeys(desired, existing) {
			if !ignoredMetadata[name] {
				d.diffField(changed, name, desired, existing, archived, ".metadata."+key)
			}
		}
		if len(changed) > 0 {
			metadata[key] = changed
		}
	}
	if len(metadata) > 0 {
		patch["metadata"] = metadata
	}
	if len(patch) == 0 {
		return nil
	}
	return patch
}

// metadataEntries returns the labels or annotations of an object.
func metadataEntries(object map[string]any, key string) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	found, _ := metadata[key].(map[string]any)
	return found
}

// unionKeys iterates over the keys of both, without duplicates.
func unionKeys(a, b map[string]any) iter.Seq[string] {
	return func(yield func(string) bool) {
		for key := range a {
			if !yield(key) {
				return
			}
		}
		for key := range b {
			if _, twice := a[key]; !twice && !yield(key) {
				return
			}
		}
	}
}

// differ compares the fields of one object.
type differ struct{ filledPrefixes []string }

// diffField adds to patch the change of one field from existing to desired.
func (d differ) diffField(patch map[string]any, key string, desired, existing, archived map[string]any, path string) {
	want, have, was := desired[key], existing[key], archived[key]
	path += "." + key
	if isEmptyValue(want) {
		if !isEmptyValue(have) && isEmptyValue(was) && !d.isFilledByCluster(key, path) {
			patch[key] = nil
		}
		return
	}
	if change, differs := d.diffValue(want, have, was, path); differs {
		patch[key] = change
	}
}

func (d differ) isFilledByCluster(key, path string) bool {
	if key == caBundle {
		return true
	}
	return slices.ContainsFunc(d.filledPrefixes, func(prefix string) bool {
		return path == prefix || strings.HasPrefix(path, prefix+".")
	})
}

// diffValue returns the patch of one value that is not empty.
func (d differ) diffValue(want, have, was any, path string) (patch any, differs bool) {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return want, true
		}
		was, _ := was.(map[string]any)
		changed := map[string]any{}
		for key := range unionKeys(want, have) {
			d.diffField(changed, key, want, have, was, path)
		}
		return changed, len(changed) > 0
	case []any:
		have, _ := have.([]any)
		was, _ := was.([]any)
		return want, d.listsDiffer(want, have, was, path)
	default:
		return want, !equalScalars(want, have)
	}
}

// listsDiffer compares lists by the position of their entries. A list is
// replaced as a whole.
func (d differ) listsDiffer(want, have, was []any, path string) bool {
	if len(want) != len(have) {
		return true
	}
	if len(was) != len(want) {
		was = make([]any, len(want))
	}
	for i := range want {
		if isEmptyValue(want[i]) && isEmptyValue(have[i]) {
			continue
		}
		if _, differs := d.diffValue(want[i], have[i], was[i], path); differs {
			return true
		}
	}
	return false
}

func isEmptyValue(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	}
	return false
}

// equalScalars compares two values that are neither objects nor lists. Whole numbers are
// equal regardless of their decoded type.
func equalScalars(a, b any) bool {
	switch x := a.(type) {
	case int64:
		y, ok := b.(float64)
		return a == b || ok && float64(x) == y
	case float64:
		y, ok := b.(int64)
		return a == b || ok && x == float64(y)
	case string, bool:
		return a == b
	}
	return false
}

// ChangedFields returns the paths of the fields that a patch of MergePatch changes, sorted,
// without their values, which may be secret. After max of them it stops with "…".
func ChangedFields(patch map[string]any, max int) []string {
	var out []string
	appendChangedFields(patch, "", &out)
	slices.Sort(out)
	if len(out) > max {
		out = append(out[:max], "…")
	}
	return out
}

func appendChangedFields(patch map[string]any, path string, out *[]string) {
	for _, key := range slices.Sorted(maps.Keys(patch)) {
		if inner, ok := patch[key].(map[string]any); ok && len(inner) > 0 {
			appendChangedFields(inner, path+key+".", out)
			continue
		}
		*out = append(*out, path+key)
	}
}
