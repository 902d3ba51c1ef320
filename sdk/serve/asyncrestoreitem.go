// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"

	"google.golang.org/protobuf/types/known/emptypb"

	asyncrestoreitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncrestoreitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/internal/wire"
	"github.com/grapnel-dev/grapnel/sdk/item"
	asyncrestoreitempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/asyncrestoreitemaction/v1"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
)

// asyncRestoreItemV1 serves version 1 of AsyncRestoreItemAction.
type asyncRestoreItemV1 struct {
	asyncrestoreitempb.UnimplementedAsyncRestoreItemActionServer
	metadataService
}

func (a asyncRestoreItemV1) AppliesTo(ctx context.Context, in *itempb.AppliesToRequest) (*itempb.AppliesToResponse, error) {
	return a.serveAppliesTo(ctx, in)
}

func (a asyncRestoreItemV1) Start(ctx context.Context, in *asyncrestoreitempb.StartRequest) (*asyncrestoreitempb.StartResponse, error) {
	return serveCall(ctx, a.server, a.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, action asyncrestoreitemv1.AsyncRestoreItemAction) (*asyncrestoreitempb.StartResponse, error) {
			req, err := wire.RestoreRequestFrom(in.GetItem(), in.GetItemFromBackup(), in.GetRestore())
			return callActionMethod(ctx, req, err, action.Start, func(resp *asyncrestoreitemv1.Started) (*asyncrestoreitempb.StartResponse, error) {
				return toRestoreStartResponse(in.GetItem(), resp)
			})
		})
}

func toRestoreStartResponse(original []byte, resp *asyncrestoreitemv1.Started) (*asyncrestoreitempb.StartResponse, error) {
	if resp == nil {
		resp = &asyncrestoreitemv1.Started{}
	}
	answer, err := wire.RestoreAnswerTo(original, &resp.RestoreResponse)
	if err != nil {
		return nil, err
	}
	timeout, err := wire.TimeTo("to wait for additional items", resp.AdditionalItemsReadyTimeout)
	if err != nil {
		return nil, err
	}
	interval, err := wire.TimeTo("between two calls of Progress", resp.PollInterval)
	if err != nil {
		return nil, err
	}
	return &asyncrestoreitempb.StartResponse{
		Item: answer.Item, AdditionalItems: answer.Additional, SkipRestore: resp.SkipRestore,
		OperationId: resp.OperationID, PollInterval: interval,
		WaitForAdditionalItems: resp.WaitForAdditionalItems, AdditionalItemsReadyTimeout: timeout,
	}, nil
}

func (a asyncRestoreItemV1) Progress(ctx context.Context, in *asyncrestoreitempb.ProgressRequest) (*asyncrestoreitempb.ProgressResponse, error) {
	return serveCall(ctx, a.server, a.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, action asyncrestoreitemv1.AsyncRestoreItemAction) (*asyncrestoreitempb.ProgressResponse, error) {
			req, err := newAsyncRestoreOperationRequest(in.GetOperationId(), in.GetRestore())
			return callActionProgress(ctx, req, err, action.Progress, func(resp *item.Progress) (*asyncrestoreitempb.ProgressResponse, error) {
				progress, err := wire.ProgressTo(resp)
				if err != nil {
					return nil, err
				}
				return &asyncrestoreitempb.ProgressResponse{Progress: progress, Cancelled: resp.Cancelled, DataCaptured: resp.DataCaptured}, nil
			})
		})
}

func (a asyncRestoreItemV1) Cancel(ctx context.Context, in *asyncrestoreitempb.CancelRequest) (*emptypb.Empty, error) {
	return serveCall(ctx, a.server, a.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, action asyncrestoreitemv1.AsyncRestoreItemAction) (*emptypb.Empty, error) {
			req, err := newAsyncRestoreOperationRequest(in.GetOperationId(), in.GetRestore())
			return callActionCancel(ctx, req, err, action.Cancel)
		})
}

func newAsyncRestoreOperationRequest(operation string, raw []byte) (*asyncrestoreitemv1.OperationRequest, error) {
	restore, err := hook.ParseRestore(raw)
	return &asyncrestoreitemv1.OperationRequest{OperationID: operation, Restore: restore}, err
}

func (a asyncRestoreItemV1) AreAdditionalItemsReady(
	ctx context.Context, in *asyncrestoreitempb.AreAdditionalItemsReadyRequest,
) (*asyncrestoreitempb.AreAdditionalItemsReadyResponse, error) {
	return serveCall(ctx, a.server, a.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, action asyncrestoreitemv1.AsyncRestoreItemAction) (*asyncrestoreitempb.AreAdditionalItemsReadyResponse, error) {
			restore, err := hook.ParseRestore(in.GetRestore())
			req := &asyncrestoreitemv1.ReadyRequest{AdditionalItems: mapRefNamespaces(wire.RefsFrom(in.GetAdditionalItems()), restore.NamespaceMapping), Restore: restore}
			return callActionMethod(ctx, req, err, action.AreAdditionalItemsReady, func(ready bool) (*asyncrestoreitempb.AreAdditionalItemsReadyResponse, error) {
				return &asyncrestoreitempb.AreAdditionalItemsReadyResponse{Ready: ready}, nil
			})
		})
}
