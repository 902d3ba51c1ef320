// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/restoreaction/clean"
)

// Restored is the annotation with which a restore recognises what it did to an
// object before it was interrupted.
const Restored = "grapnel.dev/restored"

// ignored are labels and annotations that say how an object came to be, not
// what it is.
var ignored = map[string]bool{
	clean.LabelBackupName:  true,
	clean.LabelRestoreName: true,
	Restored:               true,
	// The API server sees to it.
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

// filled are fields that a cluster fills in after an object was created, by
// resource. What is below them counts as filled in too.
var filled = map[schema.GroupResource][]string{
	{Resource: "namespaces"}:             {".spec"},
	{Resource: "persistentvolumeclaims"}: {".spec.volumeName"},
	{Resource: "persistentvolumes"}:      {".spec.claimRef"},
}

// caBundle is filled in by certificate managers, wherever it is.
const caBundle = "caBundle"

// Objects are the three forms of one object that decide about a difference.
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

// Patch returns the JSON merge patch that makes the existing object the desired
// one, nil if there is no difference that counts. It shares values with its
// arguments.
func Patch(o Objects) map[string]any {
	d := differ{filled: filled[o.Resource]}
	patch := map[string]any{}
	for key := range keys(o.Desired, o.Existing) {
		switch key {
		case "apiVersion", "kind", "metadata", "status":
			continue
		}
		d.field(patch, key, o.Desired, o.Existing, o.Archived, "")
	}
	metadata := map[string]any{}
	for _, key := range []string{"labels", "annotations"} {
		changed := map[string]any{}
		desired, existing, archived := entries(o.Desired, key), entries(o.Existing, key), entries(o.Archived, key)
		for name := range keys(desired, existing) {
			if !ignored[name] {
				d.field(changed, name, desired, existing, archived, ".metadata."+key)
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

// entries returns the labels or annotations of an object.
func entries(object map[string]any, key string) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	found, _ := metadata[key].(map[string]any)
	return found
}

// keys goes through the keys of both, each once.
func keys(a, b map[string]any) iter.Seq[string] {
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
type differ struct{ filled []string }

// field adds to patch what makes one field of existing that of desired.
func (d differ) field(patch map[string]any, key string, desired, existing, archived map[string]any, path string) {
	want, have, was := desired[key], existing[key], archived[key]
	path += "." + key
	if empty(want) {
		if !empty(have) && empty(was) && !d.isFilled(key, path) {
			patch[key] = nil
		}
		return
	}
	if change, differs := d.value(want, have, was, path); differs {
		patch[key] = change
	}
}

func (d differ) isFilled(key, path string) bool {
	if key == caBundle {
		return true
	}
	return slices.ContainsFunc(d.filled, func(prefix string) bool {
		return path == prefix || strings.HasPrefix(path, prefix+".")
	})
}

// value returns the patch of one value that is not empty.
func (d differ) value(want, have, was any, path string) (patch any, differs bool) {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return want, true
		}
		was, _ := was.(map[string]any)
		changed := map[string]any{}
		for key := range keys(want, have) {
			d.field(changed, key, want, have, was, path)
		}
		return changed, len(changed) > 0
	case []any:
		have, _ := have.([]any)
		was, _ := was.([]any)
		return want, d.listsDiffer(want, have, was, path)
	default:
		return want, !equal(want, have)
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
		if empty(want[i]) && empty(have[i]) {
			continue
		}
		if _, differs := d.value(want[i], have[i], was[i], path); differs {
			return true
		}
	}
	return false
}

func empty(value any) bool {
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

// equal compares two values that are neither objects nor lists. Whole numbers
// are equal however they were decoded.
func equal(a, b any) bool {
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

// Fields returns the paths of the fields that a patch of Patch changes, sorted,
// without their values, which may be secret. After max of them it stops with
// "…".
func Fields(patch map[string]any, max int) []string {
	var out []string
	collect(patch, "", &out)
	slices.Sort(out)
	if len(out) > max {
		out = append(out[:max], "…")
	}
	return out
}

func collect(patch map[string]any, path string, out *[]string) {
	for _, key := range slices.Sorted(maps.Keys(patch)) {
		if inner, ok := patch[key].(map[string]any); ok && len(inner) > 0 {
			collect(inner, path+key+".", out)
			continue
		}
		*out = append(*out, path+key)
	}
}
