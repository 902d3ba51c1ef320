// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
	restoreitempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/restoreitemaction/v1"
)

// restoreItemActionV1 calls version 1 of RestoreItemAction. It has no operations and
// cannot wait.
type restoreItemActionV1 struct{ unsupportedOperations }

var _ RestoreItemAction = restoreItemActionV1{}

func (restoreItemActionV1) newClient(conn grpc.ClientConnInterface) restoreitempb.RestoreItemActionClient {
	return restoreitempb.NewRestoreItemActionClient(proto.VeleroConn(conn))
}

// AppliesTo requests the selector.
func (a restoreItemActionV1) AppliesTo(ctx context.Context, call ItemCall) (item.Selector, error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).AppliesTo, &itempb.AppliesToRequest{Plugin: call.Action})
	return toItemSelector(out.GetSelector()), err
}

// Execute calls the action for one object.
func (a restoreItemActionV1) Execute(
	ctx context.Context, call ItemCall, object RestoreItem,
) (RestoreItemAnswer, error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).Execute, &restoreitempb.ExecuteRequest{
		Plugin: call.Action, Item: object.Object, Restore: object.Restore, ItemFromBackup: object.Archived,
	})
	if err != nil {
		return RestoreItemAnswer{}, err
	}
	additional, err := toItemRefs("additional objects", out.GetAdditionalItems())
	return RestoreItemAnswer{Item: out.GetItem(), Skip: out.GetSkipRestore(), RelatedItems: additional}, err
}

// AreAdditionalItemsReady makes no call: in this version, items are always ready.
func (restoreItemActionV1) AreAdditionalItemsReady(
	context.Context, ItemCall, []item.Ref, []byte,
) (bool, error) {
	return true, nil
}
