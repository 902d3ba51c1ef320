// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

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

func (restoreItemActionV2) newClient(conn grpc.ClientConnInterface) restoreitempb.RestoreItemActionClient {
	return restoreitempb.NewRestoreItemActionClient(proto.VeleroConn(conn))
}

// AppliesTo requests the selector.
func (a restoreItemActionV2) AppliesTo(ctx context.Context, call ItemCall) (item.Selector, error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).AppliesTo, &itempb.AppliesToRequest{Plugin: call.Action})
	return toItemSelector(out.GetSelector()), err
}

// Execute calls the action for one object.
func (a restoreItemActionV2) Execute(
	ctx context.Context, call ItemCall, object RestoreItem,
) (RestoreItemAnswer, error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).Execute, &restoreitempb.ExecuteRequest{
		Plugin: call.Action, Item: object.Object, Restore: object.Restore, ItemFromBackup: object.Archived,
	})
	if err != nil {
		return RestoreItemAnswer{}, err
	}
	answer := RestoreItemAnswer{
		Item: out.GetItem(), Skip: out.GetSkipRestore(), WaitForRelatedItems: out.GetWaitForAdditionalItems(), OperationID: out.GetOperationID(),
	}
	if answer.WaitTimeout, err = toNonNegativeDuration("wait for", out.GetAdditionalItemsReadyTimeout()); err != nil {
		return answer, err
	}
	answer.RelatedItems, err = toItemRefs("additional objects", out.GetAdditionalItems())
	return answer, err
}

// Progress returns the progress of an operation.
func (a restoreItemActionV2) Progress(ctx context.Context, call ItemCall, op OperationRef) (item.Progress, error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).Progress,
		&restoreitempb.ProgressRequest{Plugin: call.Action, OperationID: op.OperationID, Restore: op.Parent})
	return toVeleroItemProgress(out.GetProgress()), wrapUnknownOperation(op, err)
}

// Cancel requests the cancellation of an operation.
func (a restoreItemActionV2) Cancel(ctx context.Context, call ItemCall, op OperationRef) error {
	_, err := callItemAction(ctx, call, a.newClient(call.Conn).Cancel,
		&restoreitempb.CancelRequest{Plugin: call.Action, OperationID: op.OperationID, Restore: op.Parent})
	return wrapUnknownOperation(op, err)
}

// AreAdditionalItemsReady requests whether restored objects are ready.
func (a restoreItemActionV2) AreAdditionalItemsReady(
	ctx context.Context, call ItemCall, restored []item.Ref, restore []byte,
) (bool, error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).AreAdditionalItemsReady, &restoreitempb.AreAdditionalItemsReadyRequest{
		Plugin: call.Action, Restore: restore, AdditionalItems: toResourceIdentifiers(restored),
	})
	return out.GetReady(), err
}
