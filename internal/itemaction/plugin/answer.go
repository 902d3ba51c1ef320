// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"bytes"
	"fmt"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/itemaction/external"
	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// check makes a Result of an answer. Its error says what is wrong with the answer.
func (a *action) check(it itemaction.Item, answer adapter.BackupItemAnswer) (itemaction.Result, error) {
	if err := external.CheckRefs("additional item", answer.Additional); err != nil {
		return itemaction.Result{}, err
	}
	result := itemaction.Result{Related: a.refs(answer.Additional)}
	if answer.OperationID != "" {
		if err := external.CheckOperationID(answer.OperationID); err != nil {
			return itemaction.Result{}, err
		}
		if err := external.CheckPostItems(answer.PostOperation); err != nil {
			return itemaction.Result{}, err
		}
		result.Operation = &itemaction.Operation{
			ID: answer.OperationID, PostItems: a.refs(answer.PostOperation), PollInterval: answer.PollInterval,
		}
	}
	if len(answer.Item) == 0 || bytes.Equal(answer.Item, it.JSON) {
		return result, nil
	}
	return result, a.checkObject(it, answer.Item, &result)
}

// checkObject adds a changed object to a Result.
func (a *action) checkObject(it itemaction.Item, returned []byte, result *itemaction.Result) error {
	was, err := external.IdentityOf(it.JSON)
	if err != nil {
		return err
	}
	object, err := external.CheckObject(returned, was)
	if err != nil {
		return err
	}
	object, said, err := external.TakeAnnotations(it.JSON, object, understood...)
	if err != nil {
		return err
	}
	obeyVelero(said, result)
	var labels external.Labels
	if annotation, ok := said[item.AnnotationBackupLabels]; ok {
		labels = external.ReadLabels(annotation)
	}
	result.BackupLabels = labels.Labels
	for _, warning := range labels.Warnings {
		result.Warnings = append(result.Warnings, fmt.Sprintf("plugin %q: %s", a.Plugin(), a.Line(warning)))
	}
	if !bytes.Equal(object, it.JSON) {
		result.JSON = object
	}
	return nil
}

// refs translates references.
func (a *action) refs(refs []item.Ref) []itemaction.Ref {
	var out []itemaction.Ref
	for _, ref := range refs {
		out = append(out, itemaction.Ref{
			Resource: external.ResourceOf(ref, a.Names()), Namespace: ref.Namespace, Name: ref.Name,
		})
	}
	return out
}
