// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/emptypb"

	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/internal/wire"
	"github.com/grapnel-dev/grapnel/sdk/item"
	asyncbackupitempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/asyncbackupitemaction/v1"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
)

// asyncBackupItemV1 serves version 1 of AsyncBackupItemAction.
type asyncBackupItemV1 struct {
	asyncbackupitempb.UnimplementedAsyncBackupItemActionServer
	metadataService
}

func (a asyncBackupItemV1) AppliesTo(ctx context.Context, in *itempb.AppliesToRequest) (*itempb.AppliesToResponse, error) {
	return a.serveAppliesTo(ctx, in)
}

func (a asyncBackupItemV1) Start(ctx context.Context, in *asyncbackupitempb.StartRequest) (*asyncbackupitempb.StartResponse, error) {
	return serveCall(ctx, a.server, a.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, action asyncbackupitemv1.AsyncBackupItemAction) (*asyncbackupitempb.StartResponse, error) {
			req, err := wire.BackupRequestFrom(in.GetItem(), in.GetBackup())
			return callActionMethod(ctx, req, err, action.Start, func(resp *asyncbackupitemv1.Started) (*asyncbackupitempb.StartResponse, error) {
				return toBackupStartResponse(in.GetItem(), resp)
			})
		})
}

func toBackupStartResponse(original []byte, resp *asyncbackupitemv1.Started) (*asyncbackupitempb.StartResponse, error) {
	if resp == nil {
		resp = &asyncbackupitemv1.Started{}
	}
	answer, err := wire.BackupAnswerTo(original, &resp.BackupResponse)
	if err != nil {
		return nil, err
	}
	later, err := wire.RefsTo("post-operation", resp.PostOperationItems)
	if err != nil {
		return nil, err
	}
	interval, err := wire.TimeTo("between two calls of Progress", resp.PollInterval)
	if err != nil {
		return nil, err
	}
	return &asyncbackupitempb.StartResponse{
		Item: answer.Item, AdditionalItems: answer.Additional,
		OperationId: resp.OperationID, PostOperationItems: later, PollInterval: interval,
		DataNotCaptured: wire.Cut(resp.DataNotCaptured, maxErrorBytes),
	}, nil
}

func (a asyncBackupItemV1) Progress(ctx context.Context, in *asyncbackupitempb.ProgressRequest) (*asyncbackupitempb.ProgressResponse, error) {
	return serveCall(ctx, a.server, a.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, action asyncbackupitemv1.AsyncBackupItemAction) (*asyncbackupitempb.ProgressResponse, error) {
			req, err := newAsyncBackupOperationRequest(in.GetOperationId(), in.GetBackup())
			return callActionProgress(ctx, req, err, action.Progress, func(resp *item.Progress) (*asyncbackupitempb.ProgressResponse, error) {
				progress, err := wire.ProgressTo(resp)
				if err != nil {
					return nil, err
				}
				return &asyncbackupitempb.ProgressResponse{
					Progress: progress, Cancelled: resp.Cancelled, DataCaptured: resp.DataCaptured, Warning: wire.Cut(resp.Warning, maxErrorBytes),
				}, nil
			})
		})
}

func (a asyncBackupItemV1) Cancel(ctx context.Context, in *asyncbackupitempb.CancelRequest) (*emptypb.Empty, error) {
	return serveCall(ctx, a.server, a.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, action asyncbackupitemv1.AsyncBackupItemAction) (*emptypb.Empty, error) {
			req, err := newAsyncBackupOperationRequest(in.GetOperationId(), in.GetBackup())
			return callActionCancel(ctx, req, err, action.Cancel)
		})
}

func (a asyncBackupItemV1) CheckCapture(
	ctx context.Context, in *asyncbackupitempb.CheckCaptureRequest,
) (*asyncbackupitempb.CheckCaptureResponse, error) {
	return serveCall(ctx, a.server, a.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, action asyncbackupitemv1.AsyncBackupItemAction) (*asyncbackupitempb.CheckCaptureResponse, error) {
			checker, ok := action.(asyncbackupitemv1.CaptureChecker)
			if !ok {
				return nil, newStatusError(codes.Unimplemented, fmt.Errorf("%s is no CaptureChecker", in.GetPlugin()))
			}
			req, err := wire.BackupRequestFrom(in.GetItem(), in.GetBackup())
			return callActionMethod(ctx, req, err, checker.CheckCapture, func(notCaptured string) (*asyncbackupitempb.CheckCaptureResponse, error) {
				return &asyncbackupitempb.CheckCaptureResponse{DataNotCaptured: wire.Cut(notCaptured, maxErrorBytes)}, nil
			})
		})
}

func newAsyncBackupOperationRequest(operation string, raw []byte) (*asyncbackupitemv1.OperationRequest, error) {
	backup, err := hook.ParseBackup(raw)
	return &asyncbackupitemv1.OperationRequest{OperationID: operation, Backup: backup}, err
}
