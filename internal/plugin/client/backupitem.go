// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// BackupItemActionSpec names an action of a plugin and how to call it.
type BackupItemActionSpec = ItemActionSpec[BackupItemAction]

// BackupRun is the backup in which an action runs.
type BackupRun struct {
	// Key is the UID of the Backup.
	Key string
	// Backup is the Backup as JSON, in the form of velero.io/v1.
	Backup []byte
}

// backupItemAction is one action in one run. An object is sent as the JSON that is archived. The
// returned object replaces it only if it differs: an action that changes nothing costs a call and a
// comparison. An error is an error of the object. The annotations in which Velero's item actions talk
// to their server are honored only if the action wrote them: the owner of the object must not control
// this. They are then not archived.
type backupItemAction struct {
	*ItemAction[BackupItemAction]
	backup []byte
}

var (
	_ itemaction.BackupPluginAction                      = (*backupItemAction)(nil)
	_ itemaction.OperationStarter[itemaction.BackupItem] = (*backupItemAction)(nil)
)

// NewBackupItemAction returns an action for one run. It makes no call.
func NewBackupItemAction(spec BackupItemActionSpec, run BackupRun, redactor *redact.Redactor) itemaction.BackupPluginAction {
	return &backupItemAction{ItemAction: NewItemAction(spec, run.Key, redactor), backup: run.Backup}
}

// Execute implements itemaction.BackupAction. After an error, nothing that the action started
// continues, or the error reports that it may.
func (a *backupItemAction) Execute(ctx context.Context, it itemaction.BackupItem) (itemaction.Result, error) {
	about := backupItemKey(it)
	answer, err := a.executeAction(ctx, about, it)
	op := OperationRef{OperationID: answer.OperationID, Parent: a.backup}
	var result itemaction.Result
	if err == nil {
		result, err = a.toValidatedResult(it, answer)
	}
	if err != nil {
		err = a.CancelRejectedOperation(ctx, about, op, err)
	}
	switch {
	case err != nil && a.ShouldIgnoreFailure() && IsUnanswered(err) && ctx.Err() == nil:
		return itemaction.Result{Warnings: []string{
			fmt.Sprintf("item action %s was ignored, and the object is archived as it is: %s", a.Name(), a.WrapPluginError(err)),
		}}, nil
	case err != nil && a.Kind() == kindItemBlockAction:
		return itemaction.Result{}, &itemaction.RelatedItemsError{Err: a.WrapPluginError(err)}
	case err != nil:
		return itemaction.Result{}, a.WrapPluginError(err)
	}
	if result.Operation = newOperation(answer.OperationID, answer.PollInterval); result.Operation != nil {
		result.Operation.PostItems = a.toRelatedItems(answer.PostOperationItems)
	}
	return result, nil
}

// executeAction sends an object to the action. If the action returned an operation, the
// answer has it even with an error: the answer violated the contract, or the run ended
// meanwhile.
func (a *backupItemAction) executeAction(ctx context.Context, about string, it itemaction.BackupItem) (answer BackupItemAnswer, err error) {
	ctx, call, err := a.BeginForItem(ctx, about)
	if err != nil {
		return BackupItemAnswer{}, err
	}
	defer call.End(&err)
	return call.Version.Execute(ctx, call.ItemCall, it.JSON, a.backup)
}

// CancelOperation implements itemaction.OperationStarter.
func (a *backupItemAction) CancelOperation(ctx context.Context, it itemaction.BackupItem, id string) error {
	if err := a.cancelOperation(ctx, backupItemKey(it), OperationRef{OperationID: id, Parent: a.backup}); err != nil {
		return a.WrapPluginError(err)
	}
	return nil
}

// backupItemKey names an object in the log.
func backupItemKey(it itemaction.BackupItem) string {
	return it.Resource.GroupResource().String() + " " + it.Namespace + "/" + it.Name
}
