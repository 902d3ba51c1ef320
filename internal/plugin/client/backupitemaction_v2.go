// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	backupitempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/backupitemaction/v2"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
)

// backupItemActionV2 calls version 2 of BackupItemAction.
type backupItemActionV2 struct{}

var _ BackupItemAction = backupItemActionV2{}

func (backupItemActionV2) newClient(conn grpc.ClientConnInterface) backupitempb.BackupItemActionClient {
	return backupitempb.NewBackupItemActionClient(proto.VeleroConn(conn))
}

// AppliesTo requests the selector.
func (a backupItemActionV2) AppliesTo(ctx context.Context, call ItemCall) (item.Selector, error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).AppliesTo, &itempb.AppliesToRequest{Plugin: call.Action})
	return toItemSelector(out.GetSelector()), err
}

// Execute calls the action for one object.
func (a backupItemActionV2) Execute(
	ctx context.Context, call ItemCall, object, backup []byte,
) (BackupItemAnswer, error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).Execute,
		&backupitempb.ExecuteRequest{Plugin: call.Action, Item: object, Backup: backup})
	if err != nil {
		return BackupItemAnswer{}, err
	}
	answer := BackupItemAnswer{Item: out.GetItem(), OperationID: out.GetOperationID()}
	if answer.RelatedItems, err = toItemRefs("additional objects", out.GetAdditionalItems()); err != nil {
		return answer, err
	}
	answer.PostOperationItems, err = toItemRefs("post-operation objects", out.GetPostOperationItems())
	return answer, err
}

// Progress returns the progress of an operation.
func (a backupItemActionV2) Progress(ctx context.Context, call ItemCall, op OperationRef) (item.Progress, error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).Progress,
		&backupitempb.ProgressRequest{Plugin: call.Action, OperationID: op.OperationID, Backup: op.Parent})
	return toVeleroItemProgress(out.GetProgress()), wrapUnknownOperation(op, err)
}

// Cancel requests the cancellation of an operation.
func (a backupItemActionV2) Cancel(ctx context.Context, call ItemCall, op OperationRef) error {
	_, err := callItemAction(ctx, call, a.newClient(call.Conn).Cancel,
		&backupitempb.CancelRequest{Plugin: call.Action, OperationID: op.OperationID, Backup: op.Parent})
	return wrapUnknownOperation(op, err)
}
