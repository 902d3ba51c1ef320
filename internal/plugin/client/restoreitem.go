// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
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

var _ itemaction.PluginRestoreAction = (*restoreItemAction)(nil)

// NewRestoreItemAction returns an action for one run. It makes no call.
func NewRestoreItemAction(spec RestoreItemActionSpec, run RestoreRun, redactor *redact.Redactor) itemaction.PluginRestoreAction {
	return &restoreItemAction{ItemAction: NewItemAction(spec, run.Key, redactor), restore: run.Restore}
}

// Matches implements itemaction.PluginRestoreAction.
func (a *restoreItemAction) Matches(it *itemaction.RestoreItem) bool {
	return a.MatchesObject(it.Object.GetNamespace(), it.Object.GetLabels)
}

// Execute implements itemaction.RestoreAction.
func (a *restoreItemAction) Execute(ctx context.Context, it *itemaction.RestoreItem) (itemaction.RestoreResult, error) {
	object, err := encodeForAction(it)
	if err != nil {
		return itemaction.RestoreResult{}, err
	}
	archived, err := json.Marshal(it.Archived.Object)
	if err != nil {
		return itemaction.RestoreResult{}, fmt.Errorf("encoding the archived object: %w", err)
	}
	answer, err := a.executeAction(ctx, it, RestoreItem{Object: object, Archived: archived, Restore: a.restore})
	switch {
	case err != nil && a.ShouldIgnoreFailure() && IsUnanswered(err) && ctx.Err() == nil:
		return itemaction.RestoreResult{Warnings: []string{
			fmt.Sprintf("restore action %s was ignored, and the object is restored without it: %s", a.Name(), a.WrapPluginError(err)),
		}}, nil
	case err != nil:
		return itemaction.RestoreResult{}, a.WrapPluginError(err)
	}
	result, err := a.toValidatedResult(it, object, answer)
	if err != nil {
		return itemaction.RestoreResult{}, a.WrapPluginError(a.CancelRejectedOperation(ctx, itemKey(it), a.operationRef(answer), err))
	}
	result.Operation = a.newStartedOperation(it, answer)
	return result, nil
}

// executeAction sends an object to the action. An answer with an error is not used: it
// violated the contract, or the run ended meanwhile. An operation that it started is
// canceled.
func (a *restoreItemAction) executeAction(ctx context.Context, it *itemaction.RestoreItem, shown RestoreItem) (RestoreItemAnswer, error) {
	var answer RestoreItemAnswer
	err := a.CallForItem(ctx, itemKey(it), func(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, version RestoreItemAction) error {
		var err error
		answer, err = version.Execute(ctx, conn, call, shown)
		return err
	})
	if err != nil {
		err = a.CancelRejectedOperation(ctx, itemKey(it), a.operationRef(answer), err)
	}
	return answer, err
}

// operationRef returns the operation of an answer, as the action identifies it.
func (a *restoreItemAction) operationRef(answer RestoreItemAnswer) OperationRef {
	return OperationRef{OperationID: answer.OperationID, Parent: a.restore}
}

// newStartedOperation returns the operation of an answer, nil if there is none.
func (a *restoreItemAction) newStartedOperation(it *itemaction.RestoreItem, answer RestoreItemAnswer) *itemaction.StartedOperation {
	if answer.OperationID == "" {
		return nil
	}
	op, shown := a.operationRef(answer), itemKey(it)
	return &itemaction.StartedOperation{
		ID: answer.OperationID, PollInterval: answer.PollInterval,
		Cancel: func(ctx context.Context) error {
			if err := a.CancelOperation(ctx, shown, op); err != nil {
				return a.WrapPluginError(err)
			}
			return nil
		},
	}
}

// itemKey names an object in the log, by its name in the backup.
func itemKey(it *itemaction.RestoreItem) string {
	name := it.Archived.GetName()
	if namespace := it.Archived.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return it.Resource.GroupResource().String() + " " + name
}

// newReadyFunc returns a function that asks the action whether the objects that it named
// are ready. If the action does not answer, the function retries until the action is given
// up.
func (a *restoreItemAction) newReadyFunc(about string) func(context.Context, []itemaction.ItemRef) (bool, error) {
	return func(ctx context.Context, restored []itemaction.ItemRef) (bool, error) {
		var refs []item.Ref
		for _, ref := range restored {
			refs = append(refs, item.Ref{
				Group: ref.Resource.Group, Resource: ref.Resource.Resource, Namespace: ref.Namespace, Name: ref.Name,
			})
		}
		var yes bool
		err := a.CallForItem(ctx, about, func(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, version RestoreItemAction) error {
			var err error
			yes, err = version.AreAdditionalItemsReady(ctx, conn, call, refs, a.restore)
			return err
		})
		switch {
		case err == nil:
			return yes, nil
		case IsUnanswered(err) && !a.IsCircuitOpen():
			return false, nil
		case IsUnanswered(err) && a.ShouldIgnoreFailure():
			logr.FromContextOrDiscard(ctx).Info("Not waiting for the related items of an object, because the action is ignored",
				"action", a.Name(), "item", about, "reason", a.WrapPluginError(err).Error())
			return true, nil
		}
		return false, a.WrapPluginError(err)
	}
}
