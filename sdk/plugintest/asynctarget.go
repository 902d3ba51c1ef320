// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	asyncrestoreitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncrestoreitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// asyncBackupTargetV1 is version 1 of an AsyncBackupItemAction to check.
type asyncBackupTargetV1 struct {
	asyncbackupitemv1.AsyncBackupItemAction
}

func (asyncBackupTargetV1) asynchronous() {}

func (a asyncBackupTargetV1) execute(ctx context.Context, object *unstructured.Unstructured) (*itemAnswer, error) {
	resp, err := a.Start(ctx, NewBackupItemRequest(object))
	if err != nil {
		return nil, err
	}
	answer := backupAnswer(&resp.BackupResponse)
	answer.Operation, answer.Refs[postOperation] = resp.OperationID, resp.PostOperationItems
	return answer, nil
}

func (a asyncBackupTargetV1) operation(id string) *asyncbackupitemv1.OperationRequest {
	return &asyncbackupitemv1.OperationRequest{OperationID: id, Backup: NewBackupItemRequest(nil).Backup}
}

func (a asyncBackupTargetV1) progress(ctx context.Context, id string) (*item.Progress, error) {
	return a.Progress(ctx, a.operation(id))
}

func (a asyncBackupTargetV1) cancel(ctx context.Context, id string) error {
	return a.Cancel(ctx, a.operation(id))
}

// asyncRestoreTargetV1 is version 1 of an AsyncRestoreItemAction to check.
type asyncRestoreTargetV1 struct {
	asyncrestoreitemv1.AsyncRestoreItemAction
}

func (asyncRestoreTargetV1) asynchronous() {}

func (a asyncRestoreTargetV1) execute(ctx context.Context, object *unstructured.Unstructured) (*itemAnswer, error) {
	resp, err := a.Start(ctx, NewRestoreItemRequest(object))
	if err != nil {
		return nil, err
	}
	answer := restoreAnswer(&resp.RestoreResponse)
	answer.Operation, answer.Waits = resp.OperationID, resp.WaitForAdditionalItems
	return answer, nil
}

func (a asyncRestoreTargetV1) operation(id string) *asyncrestoreitemv1.OperationRequest {
	return &asyncrestoreitemv1.OperationRequest{OperationID: id, Restore: NewRestoreItemRequest(nil).Restore}
}

func (a asyncRestoreTargetV1) progress(ctx context.Context, id string) (*item.Progress, error) {
	return a.Progress(ctx, a.operation(id))
}

func (a asyncRestoreTargetV1) cancel(ctx context.Context, id string) error {
	return a.Cancel(ctx, a.operation(id))
}

// ready asks about the items as the operator does, see restoreTargetV2.
func (a asyncRestoreTargetV1) ready(ctx context.Context, refs []item.Ref) error {
	_, err := a.AreAdditionalItemsReady(ctx, &asyncrestoreitemv1.ReadyRequest{
		AdditionalItems: refs, Restore: NewRestoreItemRequest(nil).Restore,
	})
	return err
}
