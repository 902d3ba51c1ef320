// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/grapnel-dev/grapnel/internal/kube/shortname"
)

const (
	// LabelBackupName is on every restored object, with shortname.Label
	// of the name of the backup it came from.
	LabelBackupName = "grapnel.dev/backup-name"
	// LabelRestoreName is on every restored object, with shortname.Label
	// of the name of the restore that made it.
	LabelRestoreName = "grapnel.dev/restore-name"
)

// RestoreNames are what restored objects are labeled with.
type RestoreNames struct {
	// Backup is the name of the backup.
	Backup string
	// Restore is the name of the restore.
	Restore string
}

// CopyForRestore returns what is restored of an archived object: a copy that shares
// nothing with it, without status and without what its old cluster set, with
// the labels of names. It fails if the metadata or the labels are no objects.
func CopyForRestore(archived *unstructured.Unstructured, names RestoreNames) (*unstructured.Unstructured, error) {
	metadata, ok := archived.Object["metadata"].(map[string]any)
	if !ok {
		return nil, errors.New("metadata is missing or is no object")
	}
	kept, err := copyMetadata(metadata, names)
	if err != nil {
		return nil, err
	}
	// Only what is kept is copied: status and managedFields are often most of
	// an object.
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

func copyMetadata(metadata map[string]any, names RestoreNames) (map[string]any, error) {
	labels, ok := metadata["labels"].(map[string]any)
	if !ok && metadata["labels"] != nil {
		return nil, fmt.Errorf("metadata.labels is no object but %T", metadata["labels"])
	}
	kept := make(map[string]any, len(metadata)+1)
	for key, value := range metadata {
		if !isSetByCluster(key) {
			kept[key] = runtime.DeepCopyJSONValue(value)
		}
	}
	all := make(map[string]any, len(labels)+2)
	maps.Copy(all, labels)
	all[LabelBackupName] = shortname.LabelValue(names.Backup)
	all[LabelRestoreName] = shortname.LabelValue(names.Restore)
	kept["labels"] = all
	return kept, nil
}

// isSetByCluster reports whether a field of metadata means something in its old
// cluster only.
func isSetByCluster(key string) bool {
	switch key {
	case "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generateName",
		"generation", "managedFields", "ownerReferences", "resourceVersion", "selfLink", "uid":
		return true
	}
	return false
}
