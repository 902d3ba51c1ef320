// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
	itemblockpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/itemblockaction/v1"
)

// kindItemBlockAction is a kind of Velero that only names the objects that belong with an object.
const kindItemBlockAction = "ItemBlockAction"

// itemBlockActionV1 calls version 1 of ItemBlockAction as a BackupItemAction that changes nothing:
// what it names are additional items. In Velero, they are also archived by the same worker, between
// the hooks of all pods among them; hooks here run before and after the whole backup.
type itemBlockActionV1 struct{ unsupportedOperations }

var _ BackupItemAction = itemBlockActionV1{}

func (itemBlockActionV1) newClient(conn grpc.ClientConnInterface) itemblockpb.ItemBlockActionClient {
	return itemblockpb.NewItemBlockActionClient(proto.VeleroConn(conn))
}

// AppliesTo requests the selector.
func (a itemBlockActionV1) AppliesTo(ctx context.Context, call ItemCall) (item.Selector, error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).AppliesTo, &itempb.AppliesToRequest{Plugin: call.Action})
	return toItemSelector(out.GetSelector()), err
}

// Execute requests the objects that belong with one object.
func (a itemBlockActionV1) Execute(
	ctx context.Context, call ItemCall, object, backup []byte,
) (BackupItemAnswer, error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).GetRelatedItems,
		&itemblockpb.GetRelatedItemsRequest{Plugin: call.Action, Item: object, Backup: backup})
	if err != nil {
		return BackupItemAnswer{}, err
	}
	related, err := toItemRefs("related objects", out.GetRelatedItems())
	return BackupItemAnswer{RelatedItems: related}, err
}
