// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/sdk/item"
	asyncrestoreitempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/asyncrestoreitemaction/v1"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
)

// asyncRestoreItemActionV1 calls version 1 of AsyncRestoreItemAction.
type asyncRestoreItemActionV1 struct{}

var _ RestoreItemAction = asyncRestoreItemActionV1{}

func (asyncRestoreItemActionV1) newClient(conn grpc.ClientConnInterface) asyncrestoreitempb.AsyncRestoreItemActionClient {
	return asyncrestoreitempb.NewAsyncRestoreItemActionClient(conn)
}

// AppliesTo requests the selector.
func (a asyncRestoreItemActionV1) AppliesTo(ctx context.Context, call ItemCall) (item.Selector, error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).AppliesTo, &itempb.AppliesToRequest{Plugin: call.Action})
	return toItemSelector(out.GetSelector()), err
}

// Execute calls the action for one object.
func (a asyncRestoreItemActionV1) Execute(
	ctx context.Context, call ItemCall, object RestoreItem,
) (RestoreItemAnswer, error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).Start, &asyncrestoreitempb.StartRequest{
		Plugin: call.Action, Item: object.Object, Restore: object.Restore, ItemFromBackup: object.Archived,
	})
	if err != nil {
		return RestoreItemAnswer{}, err
	}
	answer := RestoreItemAnswer{
		Item: out.GetItem(), Skip: out.GetSkipRestore(), WaitForRelatedItems: out.GetWaitForAdditionalItems(), OperationID: out.GetOperationId(),
	}
	if answer.PollInterval, err = toNonNegativeDuration("ask again every", out.GetPollInterval()); err != nil {
		return answer, err
	}
	if answer.WaitTimeout, err = toNonNegativeDuration("wait for", out.GetAdditionalItemsReadyTimeout()); err != nil {
		return answer, err
	}
	answer.RelatedItems, err = toItemRefs("additional objects", out.GetAdditionalItems())
	return answer, err
}

// Progress returns the progress of an operation.
func (a asyncRestoreItemActionV1) Progress(
	ctx context.Context, call ItemCall, op OperationRef,
) (item.Progress, error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).Progress,
		&asyncrestoreitempb.ProgressRequest{Plugin: call.Action, OperationId: op.OperationID, Restore: op.Parent})
	return toAsyncItemProgress(out), wrapUnknownOperation(op, err)
}

// Cancel requests the cancellation of an operation.
func (a asyncRestoreItemActionV1) Cancel(ctx context.Context, call ItemCall, op OperationRef) error {
	_, err := callItemAction(ctx, call, a.newClient(call.Conn).Cancel,
		&asyncrestoreitempb.CancelRequest{Plugin: call.Action, OperationId: op.OperationID, Restore: op.Parent})
	return wrapUnknownOperation(op, err)
}

// AreAdditionalItemsReady requests whether restored objects are ready.
func (a asyncRestoreItemActionV1) AreAdditionalItemsReady(
	ctx context.Context, call ItemCall, restored []item.Ref, restore []byte,
) (bool, error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).AreAdditionalItemsReady, &asyncrestoreitempb.AreAdditionalItemsReadyRequest{
		Plugin: call.Action, Restore: restore, AdditionalItems: toResourceIdentifiers(restored),
	})
	return out.GetReady(), err
}
