// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// RestoreItemActionSpec names an action of a plugin and how to call it.
type RestoreItemActionSpec = ItemActionSpec[RestoreItemAction]

// RestoreRun is the restore in which an action runs.
type RestoreRun struct {
	// Key is the UID of the Restore.
	Key string
	// Restore is the Restore as JSON, in the form of velero.io/v1.
	Restore []byte
}

// restoreItemAction is one action in one run.
//
// Plugins of Velero see the same as in Velero: the object after its metadata was cleaned,
// in the namespace and with the labels that it had in the backup, and the object as it was
// archived. Objects that they name, and those for which AreAdditionalItemsReady is called,
// are also in the namespaces of the backup.
//
// An action may return the object in another version or kind, but must not change its name.
// The engine checks whether the cluster serves that.
//
// Every answer of an action is validated before the engine uses it. An error is an error of
// the object, names the plugin, and is redacted. An action that no longer answers is given
// up for the rest of the run. An optional action then leaves the object unchanged, with a
// warning.
//
// Actions of both kinds, RestoreItemAction and AsyncRestoreItemAction, may return an
// operation that they started. The operation of a rejected answer is canceled at once,
// because no run would wait for it; the error has the result of the cancellation.
type restoreItemAction struct {
	*ItemAction[RestoreItemAction]
	restore []byte
}

var (
	_ itemaction.RestorePluginAction                       = (*restoreItemAction)(nil)
	_ itemaction.OperationStarter[*itemaction.RestoreItem] = (*restoreItemAction)(nil)
	_ itemaction.Waiter[*itemaction.RestoreItem]           = (*restoreItemAction)(nil)
)

// NewRestoreItemAction returns an action for one run. It makes no call.
func NewRestoreItemAction(spec RestoreItemActionSpec, run RestoreRun, redactor *redact.Redactor) itemaction.RestorePluginAction {
	return &restoreItemAction{ItemAction: NewItemAction(spec, run.Key, redactor), restore: run.Restore}
}

// Execute implements itemaction.RestoreAction.
func (a *restoreItemAction) Execute(ctx context.Context, it *itemaction.RestoreItem) (itemaction.Result, error) {
	object, err := encodeForAction(it)
	if err != nil {
		return itemaction.Result{}, err
	}
	archived, err := json.Marshal(it.Archived.Object)
	if err != nil {
		return itemaction.Result{}, fmt.Errorf("encoding the archived object: %w", err)
	}
	about := itemKey(it)
	answer, err := a.executeAction(ctx, about, RestoreItem{Object: object, Archived: archived, Restore: a.restore})
	op := OperationRef{OperationID: answer.OperationID, Parent: a.restore}
	var result itemaction.Result
	if err == nil {
		result, err = a.toValidatedResult(it, object, answer)
	}
	if err != nil {
		err = a.CancelRejectedOperation(ctx, about, op, err)
	}
	switch {
	case err != nil && a.ShouldIgnoreFailure() && IsUnanswered(err) && ctx.Err() == nil:
		return itemaction.Result{Warnings: []string{
			fmt.Sprintf("restore action %s was ignored, and the object is restored without it: %s", a.Name(), a.WrapPluginError(err)),
		}}, nil
	case err != nil:
		return itemaction.Result{}, a.WrapPluginError(err)
	}
	result.Operation = newOperation(answer.OperationID, answer.PollInterval)
	return result, nil
}

// executeAction sends an object to the action. If the action returned an operation, the answer has
// it even with an error: the answer violated the contract, or the run ended meanwhile.
func (a *restoreItemAction) executeAction(ctx context.Context, about string, shown RestoreItem) (answer RestoreItemAnswer, err error) {
	ctx, call, err := a.BeginForItem(ctx, about)
	if err != nil {
		return RestoreItemAnswer{}, err
	}
	defer call.End(&err)
	return call.Version.Execute(ctx, call.ItemCall, shown)
}

// itemKey names an object in the log, by its name in the backup.
func itemKey(it *itemaction.RestoreItem) string {
	name := it.Archived.GetName()
	if namespace := it.Archived.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return it.Resource.GroupResource().String() + " " + name
}

// CancelOperation implements itemaction.OperationStarter.
func (a *restoreItemAction) CancelOperation(ctx context.Context, it *itemaction.RestoreItem, id string) error {
	if err := a.cancelOperation(ctx, itemKey(it), OperationRef{OperationID: id, Parent: a.restore}); err != nil {
		return a.WrapPluginError(err)
	}
	return nil
}

// AreRelatedItemsReady implements itemaction.Waiter. If the action does not answer, its caller
// retries until the action is given up.
func (a *restoreItemAction) AreRelatedItemsReady(
	ctx context.Context, it *itemaction.RestoreItem, restored []itemaction.RelatedItem,
) (bool, error) {
	var refs []item.Ref
	for _, ref := range restored {
		refs = append(refs, item.Ref{
			Group: ref.Resource.Group, Resource: ref.Resource.Resource, Namespace: ref.Namespace, Name: ref.Name,
		})
	}
	about := itemKey(it)
	ready, err := a.callAreItemsReady(ctx, about, refs)
	switch {
	case err == nil:
		return ready, nil
	case IsUnanswered(err) && !a.IsCircuitOpen():
		return false, nil
	case IsUnanswered(err) && a.ShouldIgnoreFailure():
		logr.FromContextOrDiscard(ctx).Info("Not waiting for the related items of an object, because the action is ignored",
			"action", a.Name(), "item", about, "reason", a.WrapPluginError(err).Error())
		return true, nil
	}
	return false, a.WrapPluginError(err)
}

func (a *restoreItemAction) callAreItemsReady(ctx context.Context, about string, restored []item.Ref) (ready bool, err error) {
	ctx, call, err := a.BeginForItem(ctx, about)
	if err != nil {
		return false, err
	}
	defer call.End(&err)
	return call.Version.AreAdditionalItemsReady(ctx, call.ItemCall, restored, a.restore)
}
