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

func (asyncBackupTargetV1) isAsyncTarget() {}

func (a asyncBackupTargetV1) executeActionOnItem(ctx context.Context, object *unstructured.Unstructured) (*itemAnswer, error) {
	resp, err := a.Start(ctx, NewBackupItemRequest(object))
	if err != nil {
		return nil, err
	}
	answer := newBackupAnswer(&resp.BackupResponse)
	answer.OperationID, answer.Refs[postOperationRefs] = resp.OperationID, resp.PostOperationItems
	return answer, nil
}

func (a asyncBackupTargetV1) newOperationRequest(id string) *asyncbackupitemv1.OperationRequest {
	return &asyncbackupitemv1.OperationRequest{OperationID: id, Backup: NewBackupItemRequest(nil).Backup}
}

func (a asyncBackupTargetV1) getOperationProgress(ctx context.Context, id string) (*item.Progress, error) {
	return a.Progress(ctx, a.newOperationRequest(id))
}

func (a asyncBackupTargetV1) cancelOperation(ctx context.Context, id string) error {
	return a.Cancel(ctx, a.newOperationRequest(id))
}

// asyncRestoreTargetV1 is version 1 of an AsyncRestoreItemAction to check.
type asyncRestoreTargetV1 struct {
	asyncrestoreitemv1.AsyncRestoreItemAction
}

func (asyncRestoreTargetV1) isAsyncTarget() {}

func (a asyncRestoreTargetV1) executeActionOnItem(ctx context.Context, object *unstructured.Unstructured) (*itemAnswer, error) {
	resp, err := a.Start(ctx, NewRestoreItemRequest(object))
	if err != nil {
		return nil, err
	}
	answer := newRestoreAnswer(&resp.RestoreResponse)
	answer.OperationID, answer.WaitForAdditionalItems = resp.OperationID, resp.WaitForAdditionalItems
	return answer, nil
}

func (a asyncRestoreTargetV1) newOperationRequest(id string) *asyncrestoreitemv1.OperationRequest {
	return &asyncrestoreitemv1.OperationRequest{OperationID: id, Restore: NewRestoreItemRequest(nil).Restore}
}

func (a asyncRestoreTargetV1) getOperationProgress(ctx context.Context, id string) (*item.Progress, error) {
	return a.Progress(ctx, a.newOperationRequest(id))
}

func (a asyncRestoreTargetV1) cancelOperation(ctx context.Context, id string) error {
	return a.Cancel(ctx, a.newOperationRequest(id))
}

// checkItemsReady calls AreAdditionalItemsReady as the operator does, see restoreTargetV2.
func (a asyncRestoreTargetV1) checkItemsReady(ctx context.Context, refs []item.Ref) error {
	_, err := a.AreAdditionalItemsReady(ctx, &asyncrestoreitemv1.ReadyRequest{
		AdditionalItems: refs, Restore: NewRestoreItemRequest(nil).Restore,
	})
	return err
}
