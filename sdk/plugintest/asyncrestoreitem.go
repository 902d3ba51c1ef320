// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"

	asyncrestoreitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncrestoreitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/internal/wire"
	"github.com/grapnel-dev/grapnel/sdk/item"
	asyncrestoreitempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/asyncrestoreitemaction/v1"
)

// AsyncRestoreItemActionV1 returns version 1 of the AsyncRestoreItemAction with a name. It behaves
// like AsyncBackupItemActionV1, and AreAdditionalItemsReady like that of RestoreItemActionV2.
func (p *Plugin) AsyncRestoreItemActionV1(name string) asyncrestoreitemv1.AsyncRestoreItemAction {
	return &asyncRestoreItemV1{plugin: p, name: name, client: asyncrestoreitempb.NewAsyncRestoreItemActionClient(p.conn)}
}

// asyncRestoreItemV1 calls version 1.
type asyncRestoreItemV1 struct {
	plugin *Plugin
	name   string
	client asyncrestoreitempb.AsyncRestoreItemActionClient
}

// AppliesTo makes one call.
func (a *asyncRestoreItemV1) AppliesTo(ctx context.Context) (item.Selector, error) {
	return a.plugin.callAppliesTo(ctx, a.name, a.client.AppliesTo)
}

// Start makes one call.
func (a *asyncRestoreItemV1) Start(ctx context.Context, req *item.RestoreRequest) (*asyncrestoreitemv1.Started, error) {
	raw, archived, err := encodeRestoreObjects(req)
	if err != nil {
		return nil, err
	}
	if ctx, err = a.plugin.withCallMetadata(ctx); err != nil {
		return nil, err
	}
	in, err := a.client.Start(ctx, &asyncrestoreitempb.StartRequest{
		Plugin: a.name, Item: raw, ItemFromBackup: archived, Restore: req.Restore.Raw,
	})
	if err != nil {
		return nil, err
	}
	resp, err := newRestoreResponse(req, in.GetItem(), in.GetAdditionalItems(), in.GetSkipRestore())
	if err != nil {
		return nil, err
	}
	return &asyncrestoreitemv1.Started{
		RestoreResponse: *resp, OperationID: in.GetOperationId(), PollInterval: in.GetPollInterval().AsDuration(),
		WaitForAdditionalItems:      in.GetWaitForAdditionalItems(),
		AdditionalItemsReadyTimeout: in.GetAdditionalItemsReadyTimeout().AsDuration(),
	}, nil
}

// Progress makes one call.
func (a *asyncRestoreItemV1) Progress(ctx context.Context, req *asyncrestoreitemv1.OperationRequest) (*item.Progress, error) {
	ctx, err := a.plugin.withCallMetadata(ctx)
	if err != nil {
		return nil, err
	}
	resp, err := a.client.Progress(ctx, &asyncrestoreitempb.ProgressRequest{
		Plugin: a.name, OperationId: req.OperationID, Restore: req.Restore.Raw,
	})
	if err != nil {
		return nil, toOperationError(err)
	}
	progress := wire.ProgressFrom(resp.GetProgress())
	progress.Cancelled = resp.GetCancelled()
	return progress, nil
}

// Cancel makes one call.
func (a *asyncRestoreItemV1) Cancel(ctx context.Context, req *asyncrestoreitemv1.OperationRequest) error {
	ctx, err := a.plugin.withCallMetadata(ctx)
	if err != nil {
		return err
	}
	_, err = a.client.Cancel(ctx, &asyncrestoreitempb.CancelRequest{
		Plugin: a.name, OperationId: req.OperationID, Restore: req.Restore.Raw,
	})
	return toOperationError(err)
}

// AreAdditionalItemsReady makes one call.
func (a *asyncRestoreItemV1) AreAdditionalItemsReady(ctx context.Context, req *asyncrestoreitemv1.ReadyRequest) (bool, error) {
	ctx, err := a.plugin.withCallMetadata(ctx)
	if err != nil {
		return false, err
	}
	refs, err := wire.RefsTo("additional", req.AdditionalItems)
	if err != nil {
		return false, err
	}
	resp, err := a.client.AreAdditionalItemsReady(ctx, &asyncrestoreitempb.AreAdditionalItemsReadyRequest{
		Plugin: a.name, Restore: req.Restore.Raw, AdditionalItems: refs,
	})
	return resp.GetReady(), err
}
