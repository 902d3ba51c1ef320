// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// restoreMustInclude is the annotation by which an action of Velero requests that its
// additional items be restored even if the user excluded them.
const restoreMustInclude = "restore.velero.io/must-include-additional-items"

// encodeForAction returns an object as the action sees it: with the namespace and the
// labels that it had in the backup.
func encodeForAction(it *itemaction.RestoreItem) ([]byte, error) {
	metadata := maps.Clone(action.GetMap(it.Object.Object, "metadata"))
	if namespace := it.Archived.GetNamespace(); namespace != "" {
		metadata["namespace"] = namespace
	}
	had := action.GetMap(it.Archived.Object, "metadata", "labels")
	labels := maps.Clone(action.GetMap(it.Object.Object, "metadata", "labels"))
	for _, key := range []string{action.LabelBackupName, action.LabelRestoreName} {
		delete(labels, key)
		if value, ok := had[key]; ok {
			labels[key] = value
		}
	}
	metadata["labels"] = labels
	if len(labels) == 0 {
		delete(metadata, "labels")
	}
	object := maps.Clone(it.Object.Object)
	object["metadata"] = metadata
	data, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding the object: %w", err)
	}
	return data, nil
}

// toValidatedResult converts an answer for an object to a Result, and replaces the object
// if the answer changed it. Its error describes what is wrong with the answer.
func (a *restoreItemAction) toValidatedResult(it *itemaction.RestoreItem, given []byte, answer RestoreItemAnswer) (itemaction.Result, error) {
	if err := ValidateOperationID(answer.OperationID); err != nil {
		return itemaction.Result{}, err
	}
	if answer.Skip {
		return itemaction.Result{Skip: fmt.Sprintf("restore action %s skips it", a.Name())}, nil
	}
	if err := ValidateItemRefs("additional item", answer.RelatedItems); err != nil {
		return itemaction.Result{}, err
	}
	result := itemaction.Result{RelatedItems: a.toItemRefs(answer.RelatedItems)}
	if answer.WaitForRelatedItems {
		result.WaitForRelatedItems, result.ReadyTimeout = true, answer.WaitTimeout
	}
	return result, a.applyReturnedObject(it, given, answer.Item, &result)
}

// applyReturnedObject replaces an object with the one that an action returned.
func (a *restoreItemAction) applyReturnedObject(it *itemaction.RestoreItem, given, returned []byte, result *itemaction.Result) error {
	if returned = bytes.TrimSpace(returned); len(returned) == 0 || bytes.Equal(returned, given) || string(returned) == "null" {
		return nil
	}
	want := Identity{Namespace: it.Archived.GetNamespace(), Name: it.Archived.GetName()}
	// Parse errors are reported below.
	if got, err := ParseIdentity(returned); err == nil && want.Namespace != "" {
		switch got.Namespace {
		case "", it.Object.GetNamespace():
			want.Namespace = got.Namespace // the engine sets it in any case
		}
	}
	checked, err := ValidateReturnedObject(returned, want)
	if err != nil {
		return err
	}
	checked, said, err := ExtractAnnotations(given, checked, item.AnnotationBackupLabels)
	if err != nil {
		return err
	}
	if annotation, ok := said[item.AnnotationBackupLabels]; ok {
		labels := ParseBackupLabels(annotation)
		result.BackupLabels = labels.Labels
		for _, warning := range labels.Warnings {
			result.Warnings = append(result.Warnings, fmt.Sprintf("restore action %s: %s", a.Name(), a.RedactLine(warning)))
		}
	}
	object := map[string]any{}
	if err := json.Unmarshal(checked, &object); err != nil {
		return fmt.Errorf("returned something that is not a Kubernetes object: %w", err)
	}
	if action.Get[string](object, "metadata", "annotations", restoreMustInclude) == "true" {
		result.Warnings = append(result.Warnings, fmt.Sprintf("restore action %s requests its related objects even if they "+
			"are excluded; this restore did not restore excluded objects", a.Name()))
	}
	action.RemoveKeys(object, []string{"metadata", "annotations"}, restoreMustInclude)
	it.Object = &unstructured.Unstructured{Object: object}
	return nil
}

// toItemRefs converts references.
func (a *restoreItemAction) toItemRefs(refs []item.Ref) []itemaction.RelatedItem {
	var out []itemaction.RelatedItem
	for _, ref := range refs {
		out = append(out, itemaction.RelatedItem{
			Resource: ResolveResource(ref, a.ResourceResolver()), Namespace: ref.Namespace, Name: ref.Name,
		})
	}
	return out
}
