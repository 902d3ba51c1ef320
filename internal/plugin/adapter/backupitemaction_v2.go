// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package adapter

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

func (backupItemActionV2) client(conn grpc.ClientConnInterface) backupitempb.BackupItemActionClient {
	return backupitempb.NewBackupItemActionClient(proto.VeleroConn(conn))
}

// AppliesTo asks for the selector.
func (a backupItemActionV2) AppliesTo(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall) (item.Selector, error) {
	out, err := callItem(ctx, call, a.client(conn).AppliesTo, &itempb.AppliesToRequest{Plugin: call.Action})
	return selectorOf(out.GetSelector()), err
}

// Execute shows one object.
func (a backupItemActionV2) Execute(
	ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, object, backup []byte,
) (BackupItemAnswer, error) {
	out, err := callItem(ctx, call, a.client(conn).Execute,
		&backupitempb.ExecuteRequest{Plugin: call.Action, Item: object, Backup: backup})
	if err != nil {
		return BackupItemAnswer{}, err
	}
	answer := BackupItemAnswer{Item: out.GetItem(), OperationID: out.GetOperationID()}
	if answer.Additional, err = refsOf("additional objects", out.GetAdditionalItems()); err != nil {
		return answer, err
	}
	answer.PostOperation, err = refsOf("objects for after its operation", out.GetPostOperationItems())
	return answer, err
}

// Progress tells how far an operation is.
func (a backupItemActionV2) Progress(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, op Operation) (item.Progress, error) {
	out, err := callItem(ctx, call, a.client(conn).Progress,
		&backupitempb.ProgressRequest{Plugin: call.Action, OperationID: op.ID, Backup: op.Subject})
	return progressOf(out.GetProgress()), aboutOperation(op, err)
}

// Cancel asks for the end of an operation.
func (a backupItemActionV2) Cancel(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, op Operation) error {
	_, err := callItem(ctx, call, a.client(conn).Cancel,
		&backupitempb.CancelRequest{Plugin: call.Action, OperationID: op.ID, Backup: op.Subject})
	return aboutOperation(op, err)
}
