// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/names"
)

// NormalizePluginResult applies CopyForRestore, in place, to an object that a plugin
// returned. It keeps what the plugin may have set deliberately: a status, and owners that
// the archived object did not have. With an owner of the old cluster, the object would be
// deleted at once. It fails if metadata, labels or annotations are not objects.
func NormalizePluginResult(object, archived *unstructured.Unstructured, restored RestoreNames) error {
	metadata, ok := object.Object["metadata"].(map[string]any)
	if !ok {
		return errors.New("metadata is missing or not an object")
	}
	for _, key := range []string{"labels", "annotations"} {
		if _, ok := metadata[key].(map[string]any); !ok && metadata[key] != nil {
			return fmt.Errorf("metadata.%s is not an object but %T", key, metadata[key])
		}
	}
	for key := range metadata {
		if isSetByCluster(key) && key != "ownerReferences" {
			delete(metadata, key)
		}
	}
	var gone []string
	for owner := range EachMap(archived.Object, "metadata", "ownerReferences") {
		gone = append(gone, Get[string](owner, "uid"))
	}
	RemoveEntries(object.Object, func(entry any) bool {
		owner, _ := entry.(map[string]any)
		return slices.Contains(gone, Get[string](owner, "uid"))
	}, "metadata", "ownerReferences")
	labels, _ := metadata["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
		metadata["labels"] = labels
	}
	labels[LabelBackupName] = names.LabelValue(restored.Backup)
	labels[LabelRestoreName] = names.LabelValue(restored.Restore)
	return nil
}
