// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	backupitempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/backupitemaction/v1"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
)

// backupItemActionV1 calls version 1 of BackupItemAction. It has no operations.
type backupItemActionV1 struct{ unsupportedOperations }

var _ BackupItemAction = backupItemActionV1{}

func (backupItemActionV1) newClient(conn grpc.ClientConnInterface) backupitempb.BackupItemActionClient {
	return backupitempb.NewBackupItemActionClient(proto.VeleroConn(conn))
}

// AppliesTo requests the selector.
func (a backupItemActionV1) AppliesTo(ctx context.Context, call ItemCall) (item.Selector, error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).AppliesTo, &itempb.AppliesToRequest{Plugin: call.Action})
	return toItemSelector(out.GetSelector()), err
}

// Execute calls the action for one object.
func (a backupItemActionV1) Execute(
	ctx context.Context, call ItemCall, object, backup []byte,
) (BackupItemAnswer, error) {
	out, err := callItemAction(ctx, call, a.newClient(call.Conn).Execute,
		&backupitempb.ExecuteRequest{Plugin: call.Action, Item: object, Backup: backup})
	if err != nil {
		return BackupItemAnswer{}, err
	}
	additional, err := toItemRefs("additional objects", out.GetAdditionalItems())
	return BackupItemAnswer{Item: out.GetItem(), RelatedItems: additional}, err
}
