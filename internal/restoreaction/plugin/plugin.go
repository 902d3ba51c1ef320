// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/grapnel-dev/grapnel/internal/itemaction/remote"
	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/restoreaction"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// Spec names an action of a plugin and how to call it.
type Spec = remote.Spec[adapter.RestoreItemAction]

// RestoreRun is the restore in which an action runs.
type RestoreRun struct {
	// Key is the UID of the Restore.
	Key string
	// Restore is the Restore as JSON, in the form of velero.io/v1.
	Restore []byte
}

// restoreItemAction is one action in one run.
type restoreItemAction struct {
	*remote.Action[adapter.RestoreItemAction]
	restore []byte
}

var _ restoreaction.PluginAction = (*restoreItemAction)(nil)

// New returns an action for one run. It makes no call.
func New(spec Spec, run RestoreRun, redactor *redact.Redactor) restoreaction.PluginAction {
	return &restoreItemAction{Action: remote.New(spec, run.Key, redactor), restore: run.Restore}
}

// Matches implements restoreaction.PluginAction.
func (a *restoreItemAction) Matches(it *restoreaction.Item) bool {
	return a.MatchesObject(it.Object.GetNamespace(), it.Object.GetLabels)
}

// Execute implements restoreaction.Action.
func (a *restoreItemAction) Execute(ctx context.Context, it *restoreaction.Item) (restoreaction.Result, error) {
	object, err := encodeForAction(it)
	if err != nil {
		return restoreaction.Result{}, err
	}
	archived, err := json.Marshal(it.Archived.Object)
	if err != nil {
		return restoreaction.Result{}, fmt.Errorf("encoding the archived object: %w", err)
	}
	answer, err := a.executeAction(ctx, it, adapter.RestoreItem{Object: object, Archived: archived, Restore: a.restore})
	switch {
	case err != nil && a.ShouldIgnoreFailure() && remote.IsUnanswered(err) && ctx.Err() == nil:
		return restoreaction.Result{Warnings: []string{
			fmt.Sprintf("restore action %s was ignored, and the object is restored without it: %s", a.Name(), a.WrapPluginError(err)),
		}}, nil
	case err != nil:
		return restoreaction.Result{}, a.WrapPluginError(err)
	}
	result, err := a.toValidatedResult(it, object, answer)
	if err != nil {
		return restoreaction.Result{}, a.WrapPluginError(a.CancelRejectedOperation(ctx, itemKey(it), a.operationRef(answer), err))
	}
	result.Operation = a.newStartedOperation(it, answer)
	return result, nil
}

// executeAction sends an object to the action. An answer with an error is not used: it
// violated the contract, or the run ended meanwhile. An operation that it started is
// canceled.
func (a *restoreItemAction) executeAction(ctx context.Context, it *restoreaction.Item, shown adapter.RestoreItem) (adapter.RestoreItemAnswer, error) {
	var answer adapter.RestoreItemAnswer
	err := a.CallForItem(ctx, itemKey(it), func(ctx context.Context, conn grpc.ClientConnInterface, call adapter.ItemCall, version adapter.RestoreItemAction) error {
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
func (a *restoreItemAction) operationRef(answer adapter.RestoreItemAnswer) adapter.OperationRef {
	return adapter.OperationRef{OperationID: answer.OperationID, Parent: a.restore}
}

// newStartedOperation returns the operation of an answer, nil if there is none.
func (a *restoreItemAction) newStartedOperation(it *restoreaction.Item, answer adapter.RestoreItemAnswer) *restoreaction.StartedOperation {
	if answer.OperationID == "" {
		return nil
	}
	op, shown := a.operationRef(answer), itemKey(it)
	return &restoreaction.StartedOperation{
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
func itemKey(it *restoreaction.Item) string {
	name := it.Archived.GetName()
	if namespace := it.Archived.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return it.Resource.GroupResource().String() + " " + name
}

// newReadyFunc returns a function that asks the action whether the objects that it named
// are ready. If the action does not answer, the function retries until the action is given
// up.
func (a *restoreItemAction) newReadyFunc(about string) func(context.Context, []restoreaction.ItemRef) (bool, error) {
	return func(ctx context.Context, restored []restoreaction.ItemRef) (bool, error) {
		var refs []item.Ref
		for _, ref := range restored {
			refs = append(refs, item.Ref{
				Group: ref.Resource.Group, Resource: ref.Resource.Resource, Namespace: ref.Namespace, Name: ref.Name,
			})
		}
		var yes bool
		err := a.CallForItem(ctx, about, func(ctx context.Context, conn grpc.ClientConnInterface, call adapter.ItemCall, version adapter.RestoreItemAction) error {
			var err error
			yes, err = version.AreAdditionalItemsReady(ctx, conn, call, refs, a.restore)
			return err
		})
		switch {
		case err == nil:
			return yes, nil
		case remote.IsUnanswered(err) && !a.IsCircuitOpen():
			return false, nil
		case remote.IsUnanswered(err) && a.ShouldIgnoreFailure():
			logr.FromContextOrDiscard(ctx).Info("Not waiting for the related items of an object, because the action is ignored",
				"action", a.Name(), "item", about, "reason", a.WrapPluginError(err).Error())
			return true, nil
		}
		return false, a.WrapPluginError(err)
	}
}
