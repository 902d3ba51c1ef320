// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/kube/shortname"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/field"
)

// NormalizePluginResult makes of an object that a plugin returned, in place, what Copy would have
// made of it, and keeps what the plugin may well have meant: a status, and owners
// that the archived object did not have. An owner of the old cluster would have the
// object deleted at once. It fails if metadata, labels or annotations are no objects.
func NormalizePluginResult(object, archived *unstructured.Unstructured, names RestoreNames) error {
	metadata, ok := object.Object["metadata"].(map[string]any)
	if !ok {
		return errors.New("metadata is missing or is no object")
	}
	for _, key := range []string{"labels", "annotations"} {
		if _, ok := metadata[key].(map[string]any); !ok && metadata[key] != nil {
			return fmt.Errorf("metadata.%s is no object but %T", key, metadata[key])
		}
	}
	for key := range metadata {
		if isSetByCluster(key) && key != "ownerReferences" {
			delete(metadata, key)
		}
	}
	var gone []string
	for owner := range field.EachMap(archived.Object, "metadata", "ownerReferences") {
		gone = append(gone, field.Get[string](owner, "uid"))
	}
	field.RemoveEntries(object.Object, func(entry any) bool {
		owner, _ := entry.(map[string]any)
		return slices.Contains(gone, field.Get[string](owner, "uid"))
	}, "metadata", "ownerReferences")
	labels, _ := metadata["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
		metadata["labels"] = labels
	}
	labels[LabelBackupName] = shortname.LabelValue(names.Backup)
	labels[LabelRestoreName] = shortname.LabelValue(names.Restore)
	return nil
}
