// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"

	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/internal/wire"
	"github.com/grapnel-dev/grapnel/sdk/item"
	asyncbackupitempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/asyncbackupitemaction/v1"
)

// AsyncBackupItemActionV1 returns version 1 of the AsyncBackupItemAction with a name. It behaves
// like BackupItemActionV1. If the action does not know the operation, the error of Progress or
// Cancel matches item.ErrUnknownOperation.
func (p *Plugin) AsyncBackupItemActionV1(name string) asyncbackupitemv1.AsyncBackupItemAction {
	return &asyncBackupItemV1{plugin: p, name: name, client: asyncbackupitempb.NewAsyncBackupItemActionClient(p.conn)}
}

// asyncBackupItemV1 calls version 1.
type asyncBackupItemV1 struct {
	plugin *Plugin
	name   string
	client asyncbackupitempb.AsyncBackupItemActionClient
}

// AppliesTo makes one call.
func (a *asyncBackupItemV1) AppliesTo(ctx context.Context) (item.Selector, error) {
	return a.plugin.callAppliesTo(ctx, a.name, a.client.AppliesTo)
}

// Start makes one call.
func (a *asyncBackupItemV1) Start(ctx context.Context, req *item.BackupRequest) (*asyncbackupitemv1.Started, error) {
	raw, err := encodeObject(req.Item)
	if err != nil {
		return nil, err
	}
	if ctx, err = a.plugin.withCallMetadata(ctx); err != nil {
		return nil, err
	}
	in, err := a.client.Start(ctx, &asyncbackupitempb.StartRequest{Plugin: a.name, Item: raw, Backup: req.Backup.Raw})
	if err != nil {
		return nil, err
	}
	resp, err := newBackupResponse(req, in.GetItem(), in.GetAdditionalItems())
	if err != nil {
		return nil, err
	}
	return &asyncbackupitemv1.Started{
		BackupResponse: *resp, OperationID: in.GetOperationId(), PostOperationItems: wire.RefsFrom(in.GetPostOperationItems()),
		PollInterval: in.GetPollInterval().AsDuration(),
	}, nil
}

// Progress makes one call.
func (a *asyncBackupItemV1) Progress(ctx context.Context, req *asyncbackupitemv1.OperationRequest) (*item.Progress, error) {
	ctx, err := a.plugin.withCallMetadata(ctx)
	if err != nil {
		return nil, err
	}
	resp, err := a.client.Progress(ctx, &asyncbackupitempb.ProgressRequest{
		Plugin: a.name, OperationId: req.OperationID, Backup: req.Backup.Raw,
	})
	if err != nil {
		return nil, toOperationError(err)
	}
	progress := wire.ProgressFrom(resp.GetProgress())
	progress.Cancelled = resp.GetCancelled()
	return progress, nil
}

// Cancel makes one call.
func (a *asyncBackupItemV1) Cancel(ctx context.Context, req *asyncbackupitemv1.OperationRequest) error {
	ctx, err := a.plugin.withCallMetadata(ctx)
	if err != nil {
		return err
	}
	_, err = a.client.Cancel(ctx, &asyncbackupitempb.CancelRequest{
		Plugin: a.name, OperationId: req.OperationID, Backup: req.Backup.Raw,
	})
	return toOperationError(err)
}
