// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	deleteitempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/deleteitemaction/v1"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
)

// deleteItemActionV1 calls version 1 of DeleteItemAction.
type deleteItemActionV1 struct{}

var _ DeleteItemAction = deleteItemActionV1{}

func (deleteItemActionV1) newClient(conn grpc.ClientConnInterface) deleteitempb.DeleteItemActionClient {
	return deleteitempb.NewDeleteItemActionClient(proto.VeleroConn(conn))
}

// AppliesTo requests the selector.
func (a deleteItemActionV1) AppliesTo(ctx context.Context, call ItemCall) (item.Selector, error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).AppliesTo, &itempb.AppliesToRequest{Plugin: call.Action})
	return toItemSelector(out.GetSelector()), err
}

// Execute calls the action for one object.
func (a deleteItemActionV1) Execute(ctx context.Context, call ItemCall, object, backup []byte) error {
	_, err := callItemAction(ctx, call, a.newClient(call.Conn).Execute,
		&deleteitempb.ExecuteRequest{Plugin: call.Action, Item: object, Backup: backup})
	return err
}
