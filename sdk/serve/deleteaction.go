// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"

	"github.com/grapnel-dev/grapnel/sdk"
	deletev1 "github.com/grapnel-dev/grapnel/sdk/deleteaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/internal/wire"
	deletepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/deleteaction/v1"
)

// deleteV1 serves version 1 of DeleteAction.
type deleteV1 struct {
	deletepb.UnimplementedDeleteActionServer
	server *Server
}

func (deleteV1) actionID(name string) actionID {
	return actionID{kind: sdk.KindDeleteAction, version: sdk.V1, name: name}
}

func (d deleteV1) AppliesTo(ctx context.Context, in *deletepb.AppliesToRequest) (*deletepb.AppliesToResponse, error) {
	received := callInfo{
		id: d.actionID(in.GetPlugin()), callID: in.GetCallId(), key: in.GetIdempotencyKey(), parameters: in.GetParameters(),
	}
	return serveCall(ctx, d.server, received,
		func(ctx context.Context, action deletev1.DeleteAction) (*deletepb.AppliesToResponse, error) {
			selector, err := action.AppliesTo(ctx)
			if err != nil {
				return nil, err
			}
			return wire.BackupSelectorTo(selector)
		})
}

func (d deleteV1) Execute(ctx context.Context, in *deletepb.ExecuteRequest) (*deletepb.ExecuteResponse, error) {
	received := callInfo{
		id: d.actionID(in.GetPlugin()), callID: in.GetCallId(), key: in.GetIdempotencyKey(), parameters: in.GetParameters(),
	}
	return serveCall(ctx, d.server, received,
		func(ctx context.Context, action deletev1.DeleteAction) (*deletepb.ExecuteResponse, error) {
			req, err := wire.DeletionFrom(in)
			unlock, err := d.server.lockIdempotencyKey(ctx, received, err)
			if err != nil {
				return nil, err
			}
			defer unlock()
			return &deletepb.ExecuteResponse{}, action.Execute(ctx, req)
		})
}
