// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package adapter

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

func (asyncRestoreItemActionV1) client(conn grpc.ClientConnInterface) asyncrestoreitempb.AsyncRestoreItemActionClient {
	return asyncrestoreitempb.NewAsyncRestoreItemActionClient(conn)
}

// AppliesTo asks for the selector.
func (a asyncRestoreItemActionV1) AppliesTo(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall) (item.Selector, error) {
	out, err := callItem(ctx, call, a.client(conn).AppliesTo, &itempb.AppliesToRequest{Plugin: call.Action})
	return selectorOf(out.GetSelector()), err
}

// Execute shows one object.
func (a asyncRestoreItemActionV1) Execute(
	ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, object RestoreItem,
) (RestoreItemAnswer, error) {
	out, err := callItem(ctx, call, a.client(conn).Start, &asyncrestoreitempb.StartRequest{
		Plugin: call.Action, Item: object.Object, Restore: object.Restore, ItemFromBackup: object.Archived,
	})
	if err != nil {
		return RestoreItemAnswer{}, err
	}
	answer := RestoreItemAnswer{
		Item: out.GetItem(), Skip: out.GetSkipRestore(), Wait: out.GetWaitForAdditionalItems(), OperationID: out.GetOperationId(),
	}
	if answer.PollInterval, err = timeOf("ask again every", out.GetPollInterval()); err != nil {
		return answer, err
	}
	if answer.WaitTimeout, err = timeOf("wait for", out.GetAdditionalItemsReadyTimeout()); err != nil {
		return answer, err
	}
	answer.Additional, err = refsOf("additional objects", out.GetAdditionalItems())
	return answer, err
}

// Progress tells how far an operation is.
func (a asyncRestoreItemActionV1) Progress(
	ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, op Operation,
) (item.Progress, error) {
	out, err := callItem(ctx, call, a.client(conn).Progress,
		&asyncrestoreitempb.ProgressRequest{Plugin: call.Action, OperationId: op.ID, Restore: op.Subject})
	return asyncProgressOf(out.GetProgress(), out.GetCancelled()), aboutOperation(op, err)
}

// Cancel asks for the end of an operation.
func (a asyncRestoreItemActionV1) Cancel(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, op Operation) error {
	_, err := callItem(ctx, call, a.client(conn).Cancel,
		&asyncrestoreitempb.CancelRequest{Plugin: call.Action, OperationId: op.ID, Restore: op.Subject})
	return aboutOperation(op, err)
}

// AdditionalItemsReady asks whether restored objects are ready.
func (a asyncRestoreItemActionV1) AdditionalItemsReady(
	ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, restored []item.Ref, restore []byte,
) (bool, error) {
	out, err := callItem(ctx, call, a.client(conn).AreAdditionalItemsReady, &asyncrestoreitempb.AreAdditionalItemsReadyRequest{
		Plugin: call.Action, Restore: restore, AdditionalItems: messagesOf(restored),
	})
	return out.GetReady(), err
}
