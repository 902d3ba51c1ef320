// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// LabelBackupName is on every restored object, with LabelValue of the name
	// of the backup it came from.
	LabelBackupName = "grapnel.dev/backup-name"
	// LabelRestoreName is on every restored object, with LabelValue of the name
	// of the restore that made it.
	LabelRestoreName = "grapnel.dev/restore-name"
)

// Names are what restored objects are labelled with.
type Names struct {
	// Backup is the name of the backup.
	Backup string
	// Restore is the name of the restore.
	Restore string
}

// Copy returns what is restored of an archived object: a copy that shares
// nothing with it, without status and without what its old cluster set, with
// the labels of names. It fails if the metadata or the labels are no objects.
func Copy(archived *unstructured.Unstructured, names Names) (*unstructured.Unstructured, error) {
	metadata, ok := archived.Object["metadata"].(map[string]any)
	if !ok {
		return nil, errors.New("metadata is missing or is no object")
	}
	kept, err := keptMetadata(metadata, names)
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

func keptMetadata(metadata map[string]any, names Names) (map[string]any, error) {
	labels, ok := metadata["labels"].(map[string]any)
	if !ok && metadata["labels"] != nil {
		return nil, fmt.Errorf("metadata.labels is no object but %T", metadata["labels"])
	}
	kept := make(map[string]any, len(metadata)+1)
	for key, value := range metadata {
		if !setByCluster(key) {
			kept[key] = runtime.DeepCopyJSONValue(value)
		}
	}
	all := make(map[string]any, len(labels)+2)
	maps.Copy(all, labels)
	all[LabelBackupName] = LabelValue(names.Backup)
	all[LabelRestoreName] = LabelValue(names.Restore)
	kept["labels"] = all
	return kept, nil
}

// setByCluster reports whether a field of metadata means something in its old
// cluster only.
func setByCluster(key string) bool {
	switch key {
	case "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generateName",
		"generation", "managedFields", "ownerReferences", "resourceVersion", "selfLink", "uid":
		return true
	}
	return false
}

// The sizes of label values: what Kubernetes allows, and how much of a name
// that is too long is replaced by a hash of all of it.
const (
	maxLabel   = 63
	hashLength = 10
)

// LabelValue returns a name of an object as the value of a label, which is
// shorter: more than 63 characters are shortened, with a hash of the whole
// name at the end.
func LabelValue(name string) string {
	if len(name) <= maxLabel {
		return name
	}
	head := strings.Map(func(c rune) rune {
		if (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') {
			return c
		}
		return '-'
	}, name)
	sum := sha256.Sum256([]byte(name))
	return strings.TrimRight(head[:min(len(head), maxLabel-hashLength-1)], "-") + "-" + hex.EncodeToString(sum[:])[:hashLength]
}
