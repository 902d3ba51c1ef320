// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"

	"google.golang.org/protobuf/types/known/emptypb"

	deleteitemv1 "github.com/grapnel-dev/grapnel/sdk/deleteitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/internal/wire"
	deleteitempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/deleteitemaction/v1"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
)

// deleteItemV1 serves version 1 of DeleteItemAction.
type deleteItemV1 struct {
	deleteitempb.UnimplementedDeleteItemActionServer
	metadataService
}

func (d deleteItemV1) AppliesTo(ctx context.Context, in *itempb.AppliesToRequest) (*itempb.AppliesToResponse, error) {
	return d.serveAppliesTo(ctx, in)
}

func (d deleteItemV1) Execute(ctx context.Context, in *deleteitempb.ExecuteRequest) (*emptypb.Empty, error) {
	return serveCall(ctx, d.server, d.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, action deleteitemv1.DeleteItemAction) (*emptypb.Empty, error) {
			req, err := wire.DeleteRequestFrom(in.GetItem(), in.GetBackup())
			return callActionMethodWithoutResponse(ctx, req, err, action.Execute)
		})
}
