// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/item"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
)

// ObjectFrom reads an object from JSON. Numbers without a fraction become int64.
func ObjectFrom(raw []byte) (*unstructured.Unstructured, error) {
	var object map[string]any
	if err := utiljson.Unmarshal(raw, &object); err != nil {
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	if object == nil {
		return nil, errors.New("reading the object: it is null")
	}
	return &unstructured.Unstructured{Object: object}, nil
}

// BackupRequestFrom returns the request for an action on an object of a backup.
func BackupRequestFrom(object, backup []byte) (*item.BackupRequest, error) {
	decoded, err := ObjectFrom(object)
	if err != nil {
		return nil, err
	}
	subject, err := hook.ParseBackup(backup)
	if err != nil {
		return nil, err
	}
	return &item.BackupRequest{Item: decoded, Backup: subject}, nil
}

// DeleteRequestFrom returns the request for an action on an object of a backup that is
// being deleted.
func DeleteRequestFrom(object, backup []byte) (*item.DeleteRequest, error) {
	req, err := BackupRequestFrom(object, backup)
	if err != nil {
		return nil, err
	}
	return &item.DeleteRequest{Item: req.Item, Backup: req.Backup}, nil
}

// RestoreRequestFrom returns the request for an action on an object of a restore.
func RestoreRequestFrom(object, archived, restore []byte) (*item.RestoreRequest, error) {
	decoded, err := ObjectFrom(object)
	if err != nil {
		return nil, err
	}
	before, err := ObjectFrom(archived)
	if err != nil {
		return nil, fmt.Errorf("the object from the backup: %w", err)
	}
	subject, err := hook.ParseRestore(restore)
	if err != nil {
		return nil, err
	}
	return &item.RestoreRequest{Item: decoded, ItemFromBackup: before, Restore: subject}, nil
}

// Answer has what all responses for an object have in common.
type Answer struct {
	// Item is the object as JSON, and Additional the objects it needs.
	Item       []byte
	Additional []*itempb.ResourceIdentifier
}

// BackupAnswerTo returns the parts of a response for an object that was sent as original;
// nil changes nothing. It returns an error if a limit is exceeded.
func BackupAnswerTo(original []byte, in *item.BackupResponse) (Answer, error) {
	if in == nil {
		return Answer{Item: original}, nil
	}
	return labeledAnswerTo(original, in.Item, in.BackupLabels, in.AdditionalItems)
}

// RestoreAnswerTo is BackupAnswerTo for restores.
func RestoreAnswerTo(original []byte, in *item.RestoreResponse) (Answer, error) {
	if in == nil {
		return Answer{Item: original}, nil
	}
	return labeledAnswerTo(original, in.Item, in.BackupLabels, in.AdditionalItems)
}

func labeledAnswerTo(original []byte, changed *unstructured.Unstructured, labels map[string]string, additional []item.Ref) (Answer, error) {
	if len(labels) > 0 {
		labelled, err := withBackupLabels(original, changed, labels)
		if err != nil {
			return Answer{}, err
		}
		changed = labelled
	}
	return answerTo(original, changed, additional)
}

// answerTo sends the original itself if nothing was returned: hosts expect an object in
// every response.
func answerTo(original []byte, changed *unstructured.Unstructured, additional []item.Ref) (Answer, error) {
	refs, err := RefsTo("additional", additional)
	if err != nil || changed == nil {
		return Answer{Item: original, Additional: refs}, err
	}
	if changed.Object == nil {
		return Answer{}, errors.New("the action returned an object without content: return nil to leave it as it is")
	}
	raw, err := json.Marshal(changed.Object)
	if err != nil {
		return Answer{}, fmt.Errorf("the action returned an object that cannot be written as JSON: %w", err)
	}
	if len(raw) > item.MaxBytes {
		return Answer{}, fmt.Errorf("the action returned an object of %d bytes, at most %d are allowed", len(raw), item.MaxBytes)
	}
	return Answer{Item: raw, Additional: refs}, nil
}

// withBackupLabels returns the object with its labels for the Backup. It does not modify
// the object that the action returned, which may be in use elsewhere.
func withBackupLabels(original []byte, object *unstructured.Unstructured, backupLabels map[string]string) (*unstructured.Unstructured, error) {
	if object == nil {
		var err error
		if object, err = ObjectFrom(original); err != nil {
			return nil, err
		}
	}
	labels, err := json.Marshal(backupLabels)
	if err != nil {
		return nil, fmt.Errorf("encoding the labels for the Backup: %w", err)
	}
	content := maps.Clone(object.Object)
	metadata, ok := content["metadata"].(map[string]any)
	if !ok {
		return nil, errors.New("the action returned an object without metadata")
	}
	metadata = maps.Clone(metadata)
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		annotations = map[string]any{}
	}
	annotations = maps.Clone(annotations)
	annotations[item.AnnotationBackupLabels] = string(labels)
	metadata["annotations"], content["metadata"] = annotations, metadata
	return &unstructured.Unstructured{Object: content}, nil
}
