// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"fmt"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// toValidatedResult converts an answer to a Result. Its error describes what is wrong with
// the answer.
func (a *backupItemAction) toValidatedResult(it itemaction.BackupItem, answer BackupItemAnswer) (itemaction.Result, error) {
	if err := ValidateItemRefs("additional item", answer.RelatedItems); err != nil {
		return itemaction.Result{}, err
	}
	result := itemaction.Result{RelatedItems: a.toRelatedItems(answer.RelatedItems), DataNotCaptured: a.RedactLine(answer.DataNotCaptured)}
	if answer.OperationID != "" {
		if err := ValidateOperationID(answer.OperationID); err != nil {
			return itemaction.Result{}, err
		}
		if err := ValidatePostOperationItems(answer.PostOperationItems); err != nil {
			return itemaction.Result{}, err
		}
	}
	if len(answer.Item) == 0 || bytes.Equal(answer.Item, it.JSON) {
		return result, nil
	}
	return result, a.applyReturnedObject(it, answer.Item, &result)
}

// applyReturnedObject adds a changed object to a Result.
func (a *backupItemAction) applyReturnedObject(it itemaction.BackupItem, returned []byte, result *itemaction.Result) error {
	was, err := ParseIdentity(it.JSON)
	if err != nil {
		return err
	}
	object, err := ValidateReturnedObject(returned, was)
	if err != nil {
		return err
	}
	object, said, err := ExtractAnnotations(it.JSON, object, handledAnnotations...)
	if err != nil {
		return err
	}
	applyVeleroAnnotations(said, result)
	var labels BackupLabels
	if annotation, ok := said[item.AnnotationBackupLabels]; ok {
		labels = ParseBackupLabels(annotation)
	}
	result.BackupLabels = labels.Labels
	for _, warning := range labels.Warnings {
		result.Warnings = append(result.Warnings, fmt.Sprintf("plugin %q: %s", a.Plugin(), a.RedactLine(warning)))
	}
	if !bytes.Equal(object, it.JSON) {
		result.JSON = object
	}
	return nil
}

// toRelatedItems converts references.
func (a *backupItemAction) toRelatedItems(refs []item.Ref) []itemaction.RelatedItem {
	var out []itemaction.RelatedItem
	for _, ref := range refs {
		out = append(out, itemaction.RelatedItem{
			Resource: ResolveResource(ref, a.ResourceResolver()), Namespace: ref.Namespace, Name: ref.Name,
		})
	}
	return out
}
