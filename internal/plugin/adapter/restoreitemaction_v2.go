// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package adapter

import (
	"context"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
	restoreitempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/restoreitemaction/v2"
)

// restoreItemActionV2 calls version 2 of RestoreItemAction.
type restoreItemActionV2 struct{}

var _ RestoreItemAction = restoreItemActionV2{}

func (restoreItemActionV2) client(conn grpc.ClientConnInterface) restoreitempb.RestoreItemActionClient {
	return restoreitempb.NewRestoreItemActionClient(proto.VeleroConn(conn))
}

// AppliesTo asks for the selector.
func (a restoreItemActionV2) AppliesTo(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall) (item.Selector, error) {
	out, err := callItem(ctx, call, a.client(conn).AppliesTo, &itempb.AppliesToRequest{Plugin: call.Action})
	return selectorOf(out.GetSelector()), err
}

// Execute shows one object.
func (a restoreItemActionV2) Execute(
	ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, object RestoreItem,
) (RestoreItemAnswer, error) {
	out, err := callItem(ctx, call, a.client(conn).Execute, &restoreitempb.ExecuteRequest{
		Plugin: call.Action, Item: object.Object, Restore: object.Restore, ItemFromBackup: object.Archived,
	})
	if err != nil {
		return RestoreItemAnswer{}, err
	}
	answer := RestoreItemAnswer{
		Item: out.GetItem(), Skip: out.GetSkipRestore(), Wait: out.GetWaitForAdditionalItems(), OperationID: out.GetOperationID(),
	}
	if answer.WaitTimeout, err = timeOf("wait for", out.GetAdditionalItemsReadyTimeout()); err != nil {
		return answer, err
	}
	answer.Additional, err = refsOf("additional objects", out.GetAdditionalItems())
	return answer, err
}

// Progress tells how far an operation is.
func (a restoreItemActionV2) Progress(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, op Operation) (item.Progress, error) {
	out, err := callItem(ctx, call, a.client(conn).Progress,
		&restoreitempb.ProgressRequest{Plugin: call.Action, OperationID: op.ID, Restore: op.Subject})
	return progressOf(out.GetProgress()), aboutOperation(op, err)
}

// Cancel asks for the end of an operation.
func (a restoreItemActionV2) Cancel(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, op Operation) error {
	_, err := callItem(ctx, call, a.client(conn).Cancel,
		&restoreitempb.CancelRequest{Plugin: call.Action, OperationID: op.ID, Restore: op.Subject})
	return aboutOperation(op, err)
}

// AdditionalItemsReady asks whether restored objects are ready.
func (a restoreItemActionV2) AdditionalItemsReady(
	ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, restored []item.Ref, restore []byte,
) (bool, error) {
	out, err := callItem(ctx, call, a.client(conn).AreAdditionalItemsReady, &restoreitempb.AreAdditionalItemsReadyRequest{
		Plugin: call.Action, Restore: restore, AdditionalItems: messagesOf(restored),
	})
	return out.GetReady(), err
}
