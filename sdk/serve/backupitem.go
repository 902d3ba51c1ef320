// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"

	"google.golang.org/protobuf/types/known/emptypb"

	backupitemv1 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v1"
	backupitemv2 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v2"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/internal/wire"
	"github.com/grapnel-dev/grapnel/sdk/item"
	backupitemv1pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/backupitemaction/v1"
	backupitemv2pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/backupitemaction/v2"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
)

// backupItemV1 serves version 1 of BackupItemAction.
type backupItemV1 struct {
	backupitemv1pb.UnimplementedBackupItemActionServer
	metadataService
}

func (b backupItemV1) AppliesTo(ctx context.Context, in *itempb.AppliesToRequest) (*itempb.AppliesToResponse, error) {
	return b.serveAppliesTo(ctx, in)
}

func (b backupItemV1) Execute(ctx context.Context, in *backupitemv1pb.ExecuteRequest) (*backupitemv1pb.ExecuteResponse, error) {
	return serveCall(ctx, b.server, b.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, action backupitemv1.BackupItemAction) (*backupitemv1pb.ExecuteResponse, error) {
			req, err := wire.BackupRequestFrom(in.GetItem(), in.GetBackup())
			return callActionMethod(ctx, req, err, action.Execute, func(resp *item.BackupResponse) (*backupitemv1pb.ExecuteResponse, error) {
				answer, err := wire.BackupAnswerTo(in.GetItem(), resp)
				return &backupitemv1pb.ExecuteResponse{Item: answer.Item, AdditionalItems: answer.Additional}, err
			})
		})
}

// backupItemV2 serves version 2 of BackupItemAction.
type backupItemV2 struct {
	backupitemv2pb.UnimplementedBackupItemActionServer
	metadataService
}

func (b backupItemV2) AppliesTo(ctx context.Context, in *itempb.AppliesToRequest) (*itempb.AppliesToResponse, error) {
	return b.serveAppliesTo(ctx, in)
}

func (b backupItemV2) Execute(ctx context.Context, in *backupitemv2pb.ExecuteRequest) (*backupitemv2pb.ExecuteResponse, error) {
	return serveCall(ctx, b.server, b.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, action backupitemv2.BackupItemAction) (*backupitemv2pb.ExecuteResponse, error) {
			req, err := wire.BackupRequestFrom(in.GetItem(), in.GetBackup())
			return callActionMethod(ctx, req, err, action.Execute, func(resp *backupitemv2.Response) (*backupitemv2pb.ExecuteResponse, error) {
				return toBackupResponseV2(in.GetItem(), resp)
			})
		})
}

func toBackupResponseV2(original []byte, resp *backupitemv2.Response) (*backupitemv2pb.ExecuteResponse, error) {
	if resp == nil {
		resp = &backupitemv2.Response{}
	}
	answer, err := wire.BackupAnswerTo(original, &resp.BackupResponse)
	if err != nil {
		return nil, err
	}
	later, err := wire.RefsTo("post-operation", resp.PostOperationItems)
	if err != nil {
		return nil, err
	}
	return &backupitemv2pb.ExecuteResponse{
		Item: answer.Item, AdditionalItems: answer.Additional,
		OperationID: resp.OperationID, PostOperationItems: later,
	}, nil
}

func (b backupItemV2) Progress(ctx context.Context, in *backupitemv2pb.ProgressRequest) (*backupitemv2pb.ProgressResponse, error) {
	return serveCall(ctx, b.server, b.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, action backupitemv2.BackupItemAction) (*backupitemv2pb.ProgressResponse, error) {
			req, err := newBackupOperationRequest(in.GetOperationID(), in.GetBackup())
			return callActionProgress(ctx, req, err, action.Progress, func(resp *item.Progress) (*backupitemv2pb.ProgressResponse, error) {
				progress, err := wire.VeleroProgressTo(resp)
				return &backupitemv2pb.ProgressResponse{Progress: progress}, err
			})
		})
}

func (b backupItemV2) Cancel(ctx context.Context, in *backupitemv2pb.CancelRequest) (*emptypb.Empty, error) {
	return serveCall(ctx, b.server, b.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, action backupitemv2.BackupItemAction) (*emptypb.Empty, error) {
			req, err := newBackupOperationRequest(in.GetOperationID(), in.GetBackup())
			return callActionCancel(ctx, req, err, action.Cancel)
		})
}

func newBackupOperationRequest(operation string, raw []byte) (*backupitemv2.OperationRequest, error) {
	backup, err := hook.ParseBackup(raw)
	return &backupitemv2.OperationRequest{OperationID: operation, Backup: backup}, err
}
