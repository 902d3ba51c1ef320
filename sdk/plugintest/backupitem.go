// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"

	"google.golang.org/grpc"

	backupitemv1 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v1"
	backupitemv2 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v2"
	"github.com/grapnel-dev/grapnel/sdk/internal/wire"
	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	backupitemv1pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/backupitemaction/v1"
	backupitemv2pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/backupitemaction/v2"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
)

// clientMethod is a method of a generated client.
type clientMethod[In, Out any] func(ctx context.Context, in *In, opts ...grpc.CallOption) (*Out, error)

// BackupItemActionV1 returns version 1 of the BackupItemAction with a name, as registered
// with RegisterBackupItemActionV1. The Backup of a request is taken from Backup.Raw. Errors
// are as for PreBackup; the code is Unimplemented if no action is registered under the name
// in this version.
func (p *Plugin) BackupItemActionV1(name string) backupitemv1.BackupItemAction {
	return &backupItemV1{plugin: p, name: name, client: backupitemv1pb.NewBackupItemActionClient(proto.VeleroConn(p.conn))}
}

// BackupItemActionV2 returns version 2 of the BackupItemAction with a name. It behaves like
// BackupItemActionV1. If the action does not know the operation, the error of Progress or
// Cancel matches item.ErrUnknownOperation.
func (p *Plugin) BackupItemActionV2(name string) backupitemv2.BackupItemAction {
	return &backupItemV2{plugin: p, name: name, client: backupitemv2pb.NewBackupItemActionClient(proto.VeleroConn(p.conn))}
}

// backupItemV1 calls version 1.
type backupItemV1 struct {
	plugin *Plugin
	name   string
	client backupitemv1pb.BackupItemActionClient
}

// AppliesTo makes one call.
func (b *backupItemV1) AppliesTo(ctx context.Context) (item.Selector, error) {
	return b.plugin.callAppliesTo(ctx, b.name, b.client.AppliesTo)
}

// Execute makes one call.
func (b *backupItemV1) Execute(ctx context.Context, req *item.BackupRequest) (*item.BackupResponse, error) {
	raw, err := encodeObject(req.Item)
	if err != nil {
		return nil, err
	}
	if ctx, err = b.plugin.withCallMetadata(ctx); err != nil {
		return nil, err
	}
	resp, err := b.client.Execute(ctx, &backupitemv1pb.ExecuteRequest{Plugin: b.name, Item: raw, Backup: req.Backup.Raw})
	if err != nil {
		return nil, err
	}
	return newBackupResponse(req, resp.GetItem(), resp.GetAdditionalItems())
}

// backupItemV2 calls version 2.
type backupItemV2 struct {
	plugin *Plugin
	name   string
	client backupitemv2pb.BackupItemActionClient
}

// AppliesTo makes one call.
func (b *backupItemV2) AppliesTo(ctx context.Context) (item.Selector, error) {
	return b.plugin.callAppliesTo(ctx, b.name, b.client.AppliesTo)
}

// Execute makes one call.
func (b *backupItemV2) Execute(ctx context.Context, req *item.BackupRequest) (*backupitemv2.Response, error) {
	raw, err := encodeObject(req.Item)
	if err != nil {
		return nil, err
	}
	if ctx, err = b.plugin.withCallMetadata(ctx); err != nil {
		return nil, err
	}
	in, err := b.client.Execute(ctx, &backupitemv2pb.ExecuteRequest{Plugin: b.name, Item: raw, Backup: req.Backup.Raw})
	if err != nil {
		return nil, err
	}
	resp, err := newBackupResponse(req, in.GetItem(), in.GetAdditionalItems())
	if err != nil {
		return nil, err
	}
	return &backupitemv2.Response{
		BackupResponse: *resp, OperationID: in.GetOperationID(), PostOperationItems: wire.RefsFrom(in.GetPostOperationItems()),
	}, nil
}

// Progress makes one call.
func (b *backupItemV2) Progress(ctx context.Context, req *backupitemv2.OperationRequest) (*item.Progress, error) {
	ctx, err := b.plugin.withCallMetadata(ctx)
	if err != nil {
		return nil, err
	}
	resp, err := b.client.Progress(ctx, &backupitemv2pb.ProgressRequest{
		Plugin: b.name, OperationID: req.OperationID, Backup: req.Backup.Raw,
	})
	if err != nil {
		return nil, toOperationError(err)
	}
	return wire.ProgressFrom(resp.GetProgress()), nil
}

// Cancel makes one call.
func (b *backupItemV2) Cancel(ctx context.Context, req *backupitemv2.OperationRequest) error {
	ctx, err := b.plugin.withCallMetadata(ctx)
	if err != nil {
		return err
	}
	_, err = b.client.Cancel(ctx, &backupitemv2pb.CancelRequest{
		Plugin: b.name, OperationID: req.OperationID, Backup: req.Backup.Raw,
	})
	return toOperationError(err)
}

func newBackupResponse(
	req *item.BackupRequest, raw []byte, additional []*itempb.ResourceIdentifier,
) (*item.BackupResponse, error) {
	answered, err := wire.ObjectFrom(raw)
	if err != nil {
		return nil, err
	}
	labels, err := extractBackupLabels(req.Item, answered)
	if err != nil {
		return nil, err
	}
	return &item.BackupResponse{Item: answered, AdditionalItems: wire.RefsFrom(additional), BackupLabels: labels}, nil
}
