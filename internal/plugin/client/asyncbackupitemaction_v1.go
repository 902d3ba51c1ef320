// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/sdk/item"
	asyncbackupitempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/asyncbackupitemaction/v1"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
)

// asyncBackupItemActionV1 calls version 1 of AsyncBackupItemAction.
type asyncBackupItemActionV1 struct{}

var _ BackupItemAction = asyncBackupItemActionV1{}

func (asyncBackupItemActionV1) newClient(conn grpc.ClientConnInterface) asyncbackupitempb.AsyncBackupItemActionClient {
	return asyncbackupitempb.NewAsyncBackupItemActionClient(conn)
}

// AppliesTo requests the selector.
func (a asyncBackupItemActionV1) AppliesTo(ctx context.Context, call ItemCall) (item.Selector, error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).AppliesTo, &itempb.AppliesToRequest{Plugin: call.Action})
	return toItemSelector(out.GetSelector()), err
}

// Execute calls the action for one object.
func (a asyncBackupItemActionV1) Execute(
	ctx context.Context, call ItemCall, object, backup []byte,
) (BackupItemAnswer, error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).Start,
		&asyncbackupitempb.StartRequest{Plugin: call.Action, Item: object, Backup: backup})
	if err != nil {
		return BackupItemAnswer{}, err
	}
	answer := BackupItemAnswer{Item: out.GetItem(), OperationID: out.GetOperationId(), DataNotCaptured: out.GetDataNotCaptured()}
	if answer.PollInterval, err = toNonNegativeDuration("ask again every", out.GetPollInterval()); err != nil {
		return answer, err
	}
	if answer.RelatedItems, err = toItemRefs("additional objects", out.GetAdditionalItems()); err != nil {
		return answer, err
	}
	answer.PostOperationItems, err = toItemRefs("post-operation objects", out.GetPostOperationItems())
	return answer, err
}

// Progress returns the progress of an operation.
// CheckCapture returns why the action would not capture the data of an object. An action that
// cannot tell counts as capturing it.
func (a asyncBackupItemActionV1) CheckCapture(ctx context.Context, call ItemCall, object, backup []byte) (notCaptured string, err error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).CheckCapture,
		&asyncbackupitempb.CheckCaptureRequest{Plugin: call.Action, Item: object, Backup: backup})
	if status.Code(err) == codes.Unimplemented {
		return "", nil
	}
	return out.GetDataNotCaptured(), err
}

func (a asyncBackupItemActionV1) Progress(
	ctx context.Context, call ItemCall, op OperationRef,
) (item.Progress, error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).Progress,
		&asyncbackupitempb.ProgressRequest{Plugin: call.Action, OperationId: op.OperationID, Backup: op.Parent})
	progress := toAsyncItemProgress(out)
	progress.Warning = out.GetWarning()
	return progress, wrapUnknownOperation(op, err)
}

// Cancel requests the cancellation of an operation.
func (a asyncBackupItemActionV1) Cancel(ctx context.Context, call ItemCall, op OperationRef) error {
	_, err := callItemAction(ctx, call, a.newClient(call.Conn).Cancel,
		&asyncbackupitempb.CancelRequest{Plugin: call.Action, OperationId: op.OperationID, Backup: op.Parent})
	return wrapUnknownOperation(op, err)
}
