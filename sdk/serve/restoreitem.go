// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/internal/wire"
	"github.com/grapnel-dev/grapnel/sdk/item"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
	restoreitemv1pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/restoreitemaction/v1"
	restoreitemv2pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/restoreitemaction/v2"
	restoreitemv1 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v1"
	restoreitemv2 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v2"
)

// restoreItemV1 serves version 1 of RestoreItemAction.
type restoreItemV1 struct {
	restoreitemv1pb.UnimplementedRestoreItemActionServer
	metadataService
}

func (r restoreItemV1) AppliesTo(ctx context.Context, in *itempb.AppliesToRequest) (*itempb.AppliesToResponse, error) {
	return r.serveAppliesTo(ctx, in)
}

func (r restoreItemV1) Execute(ctx context.Context, in *restoreitemv1pb.ExecuteRequest) (*restoreitemv1pb.ExecuteResponse, error) {
	return serveCall(ctx, r.server, r.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, action restoreitemv1.RestoreItemAction) (*restoreitemv1pb.ExecuteResponse, error) {
			req, err := wire.RestoreRequestFrom(in.GetItem(), in.GetItemFromBackup(), in.GetRestore())
			return callActionMethod(ctx, req, err, action.Execute, func(resp *item.RestoreResponse) (*restoreitemv1pb.ExecuteResponse, error) {
				answer, err := wire.RestoreAnswerTo(in.GetItem(), resp)
				return &restoreitemv1pb.ExecuteResponse{
					Item: answer.Item, AdditionalItems: answer.Additional, SkipRestore: resp != nil && resp.SkipRestore,
				}, err
			})
		})
}

// restoreItemV2 serves version 2 of RestoreItemAction.
type restoreItemV2 struct {
	restoreitemv2pb.UnimplementedRestoreItemActionServer
	metadataService
}

func (r restoreItemV2) AppliesTo(ctx context.Context, in *itempb.AppliesToRequest) (*itempb.AppliesToResponse, error) {
	return r.serveAppliesTo(ctx, in)
}

func (r restoreItemV2) Execute(ctx context.Context, in *restoreitemv2pb.ExecuteRequest) (*restoreitemv2pb.ExecuteResponse, error) {
	return serveCall(ctx, r.server, r.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, action restoreitemv2.RestoreItemAction) (*restoreitemv2pb.ExecuteResponse, error) {
			req, err := wire.RestoreRequestFrom(in.GetItem(), in.GetItemFromBackup(), in.GetRestore())
			return callActionMethod(ctx, req, err, action.Execute, func(resp *restoreitemv2.Response) (*restoreitemv2pb.ExecuteResponse, error) {
				return toRestoreResponseV2(in.GetItem(), resp)
			})
		})
}

func toRestoreResponseV2(original []byte, resp *restoreitemv2.Response) (*restoreitemv2pb.ExecuteResponse, error) {
	if resp == nil {
		resp = &restoreitemv2.Response{}
	}
	if resp.AdditionalItemsReadyTimeout < 0 {
		return nil, fmt.Errorf("the action returned %s as the time to wait for additional items, which is negative",
			resp.AdditionalItemsReadyTimeout)
	}
	answer, err := wire.RestoreAnswerTo(original, &resp.RestoreResponse)
	if err != nil {
		return nil, err
	}
	return &restoreitemv2pb.ExecuteResponse{
		Item: answer.Item, AdditionalItems: answer.Additional, SkipRestore: resp.SkipRestore,
		OperationID: resp.OperationID, WaitForAdditionalItems: resp.WaitForAdditionalItems,
		AdditionalItemsReadyTimeout: durationpb.New(resp.AdditionalItemsReadyTimeout),
	}, nil
}

func (r restoreItemV2) Progress(ctx context.Context, in *restoreitemv2pb.ProgressRequest) (*restoreitemv2pb.ProgressResponse, error) {
	return serveCall(ctx, r.server, r.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, action restoreitemv2.RestoreItemAction) (*restoreitemv2pb.ProgressResponse, error) {
			req, err := newRestoreOperationRequest(in.GetOperationID(), in.GetRestore())
			return callActionProgress(ctx, req, err, action.Progress, func(resp *item.Progress) (*restoreitemv2pb.ProgressResponse, error) {
				progress, err := wire.VeleroProgressTo(resp)
				return &restoreitemv2pb.ProgressResponse{Progress: progress}, err
			})
		})
}

func (r restoreItemV2) Cancel(ctx context.Context, in *restoreitemv2pb.CancelRequest) (*emptypb.Empty, error) {
	return serveCall(ctx, r.server, r.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, action restoreitemv2.RestoreItemAction) (*emptypb.Empty, error) {
			req, err := newRestoreOperationRequest(in.GetOperationID(), in.GetRestore())
			return callActionCancel(ctx, req, err, action.Cancel)
		})
}

func newRestoreOperationRequest(operation string, raw []byte) (*restoreitemv2.OperationRequest, error) {
	restore, err := hook.ParseRestore(raw)
	return &restoreitemv2.OperationRequest{OperationID: operation, Restore: restore}, err
}

func (r restoreItemV2) AreAdditionalItemsReady(
	ctx context.Context, in *restoreitemv2pb.AreAdditionalItemsReadyRequest,
) (*restoreitemv2pb.AreAdditionalItemsReadyResponse, error) {
	return serveCall(ctx, r.server, r.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, action restoreitemv2.RestoreItemAction) (*restoreitemv2pb.AreAdditionalItemsReadyResponse, error) {
			restore, err := hook.ParseRestore(in.GetRestore())
			req := &restoreitemv2.ReadyRequest{AdditionalItems: mapRefNamespaces(wire.RefsFrom(in.GetAdditionalItems()), restore.NamespaceMapping), Restore: restore}
			return callActionMethod(ctx, req, err, action.AreAdditionalItemsReady, func(ready bool) (*restoreitemv2pb.AreAdditionalItemsReadyResponse, error) {
				return &restoreitemv2pb.AreAdditionalItemsReadyResponse{Ready: ready}, nil
			})
		})
}

// mapRefNamespaces maps the names of objects to their target namespaces. On the wire, Velero
// and the operator use the names that Execute returned.
func mapRefNamespaces(refs []item.Ref, mapping map[string]string) []item.Ref {
	for i := range refs {
		if target, ok := mapping[refs[i].Namespace]; ok {
			refs[i].Namespace = target
		}
	}
	return refs
}
