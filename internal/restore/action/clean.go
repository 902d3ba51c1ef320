// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/grapnel-dev/grapnel/internal/names"
)

const (
	// LabelBackupName is on every restored object, with names.LabelValue of the name of its
	// backup.
	LabelBackupName = "grapnel.dev/backup-name"
	// LabelRestoreName is on every restored object, with names.LabelValue of the name of the
	// restore that created it.
	LabelRestoreName = "grapnel.dev/restore-name"
)

// RestoreNames are the values of the labels of restored objects.
type RestoreNames struct {
	// Backup is the name of the backup.
	Backup string
	// Restore is the name of the restore.
	Restore string
}

// CopyForRestore returns the object to restore for an archived object: a deep copy without what
// is meaningful only in its old cluster. It fails if the metadata or the labels are not objects.
//
// Removed: the metadata that an API server sets (uid, resourceVersion, generation,
// creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds, selfLink,
// managedFields), generateName, because the name is known, and ownerReferences, because
// they refer to owners by their old UIDs: the garbage collector would delete the object at
// once. Owners that select their objects (ReplicaSets, StatefulSets) adopt them again by
// their selectors. The whole status is removed too; restoring it is a separate step after
// the object exists.
//
// Kept: labels, annotations, finalizers and everything else. Added: the labels
// LabelBackupName and LabelRestoreName, with the names in restored.
func CopyForRestore(archived *unstructured.Unstructured, restored RestoreNames) (*unstructured.Unstructured, error) {
	metadata, ok := archived.Object["metadata"].(map[string]any)
	if !ok {
		return nil, errors.New("metadata is missing or not an object")
	}
	kept, err := copyMetadata(metadata, restored)
	if err != nil {
		return nil, err
	}
	// Copy only what is kept: status and managedFields are often most of an object.
	object := make(map[string]any, len(archived.Object))
	for key, value := range archived.Object {
		switch key {
		case "status":
		case "metadata":
			object[key] = kept
		default:
			object[key] = runtime.DeepCopyJSONValue(value)
		}
	}
	return &unstructured.Unstructured{Object: object}, nil
}

func copyMetadata(metadata map[string]any, restored RestoreNames) (map[string]any, error) {
	labels, ok := metadata["labels"].(map[string]any)
	if !ok && metadata["labels"] != nil {
		return nil, fmt.Errorf("metadata.labels is not an object but %T", metadata["labels"])
	}
	kept := make(map[string]any, len(metadata)+1)
	for key, value := range metadata {
		if !isSetByCluster(key) {
			kept[key] = runtime.DeepCopyJSONValue(value)
		}
	}
	all := make(map[string]any, len(labels)+2)
	maps.Copy(all, labels)
	all[LabelBackupName] = names.LabelValue(restored.Backup)
	all[LabelRestoreName] = names.LabelValue(restored.Restore)
	kept["labels"] = all
	return kept, nil
}

// isSetByCluster reports whether a field of metadata is meaningful only in its old cluster.
func isSetByCluster(key string) bool {
	switch key {
	case "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generateName",
		"generation", "managedFields", "ownerReferences", "resourceVersion", "selfLink", "uid":
		return true
	}
	return false
}
