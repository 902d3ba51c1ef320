// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"

	"github.com/grapnel-dev/grapnel/sdk/internal/wire"
	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
	restoreitemv1pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/restoreitemaction/v1"
	restoreitemv2pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/restoreitemaction/v2"
	restoreitemv1 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v1"
	restoreitemv2 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v2"
)

// RestoreItemActionV1 returns version 1 of the RestoreItemAction with a name. It behaves
// like BackupItemActionV1.
func (p *Plugin) RestoreItemActionV1(name string) restoreitemv1.RestoreItemAction {
	return &restoreItemV1{plugin: p, name: name, client: restoreitemv1pb.NewRestoreItemActionClient(proto.VeleroConn(p.conn))}
}

// RestoreItemActionV2 returns version 2 of the RestoreItemAction with a name. It behaves
// like BackupItemActionV1. AreAdditionalItemsReady takes the items as Execute returned
// them, like the operator: the SDK maps them to their target namespaces.
func (p *Plugin) RestoreItemActionV2(name string) restoreitemv2.RestoreItemAction {
	return &restoreItemV2{plugin: p, name: name, client: restoreitemv2pb.NewRestoreItemActionClient(proto.VeleroConn(p.conn))}
}

// restoreItemV1 calls version 1.
type restoreItemV1 struct {
	plugin *Plugin
	name   string
	client restoreitemv1pb.RestoreItemActionClient
}

// AppliesTo makes one call.
func (r *restoreItemV1) AppliesTo(ctx context.Context) (item.Selector, error) {
	return r.plugin.callAppliesTo(ctx, r.name, r.client.AppliesTo)
}

// Execute makes one call.
func (r *restoreItemV1) Execute(ctx context.Context, req *item.RestoreRequest) (*item.RestoreResponse, error) {
	raw, archived, err := encodeRestoreObjects(req)
	if err != nil {
		return nil, err
	}
	if ctx, err = r.plugin.withCallMetadata(ctx); err != nil {
		return nil, err
	}
	resp, err := r.client.Execute(ctx, &restoreitemv1pb.ExecuteRequest{
		Plugin: r.name, Item: raw, ItemFromBackup: archived, Restore: req.Restore.Raw,
	})
	if err != nil {
		return nil, err
	}
	return newRestoreResponse(req, resp.GetItem(), resp.GetAdditionalItems(), resp.GetSkipRestore())
}

// restoreItemV2 calls version 2.
type restoreItemV2 struct {
	plugin *Plugin
	name   string
	client restoreitemv2pb.RestoreItemActionClient
}

// AppliesTo makes one call.
func (r *restoreItemV2) AppliesTo(ctx context.Context) (item.Selector, error) {
	return r.plugin.callAppliesTo(ctx, r.name, r.client.AppliesTo)
}

// Execute makes one call.
func (r *restoreItemV2) Execute(ctx context.Context, req *item.RestoreRequest) (*restoreitemv2.Response, error) {
	raw, archived, err := encodeRestoreObjects(req)
	if err != nil {
		return nil, err
	}
	if ctx, err = r.plugin.withCallMetadata(ctx); err != nil {
		return nil, err
	}
	in, err := r.client.Execute(ctx, &restoreitemv2pb.ExecuteRequest{
		Plugin: r.name, Item: raw, ItemFromBackup: archived, Restore: req.Restore.Raw,
	})
	if err != nil {
		return nil, err
	}
	resp, err := newRestoreResponse(req, in.GetItem(), in.GetAdditionalItems(), in.GetSkipRestore())
	if err != nil {
		return nil, err
	}
	return &restoreitemv2.Response{
		RestoreResponse: *resp, OperationID: in.GetOperationID(), WaitForAdditionalItems: in.GetWaitForAdditionalItems(),
		AdditionalItemsReadyTimeout: in.GetAdditionalItemsReadyTimeout().AsDuration(),
	}, nil
}

// Progress makes one call.
func (r *restoreItemV2) Progress(ctx context.Context, req *restoreitemv2.OperationRequest) (*item.Progress, error) {
	ctx, err := r.plugin.withCallMetadata(ctx)
	if err != nil {
		return nil, err
	}
	resp, err := r.client.Progress(ctx, &restoreitemv2pb.ProgressRequest{
		Plugin: r.name, OperationID: req.OperationID, Restore: req.Restore.Raw,
	})
	if err != nil {
		return nil, toOperationError(err)
	}
	return wire.ProgressFrom(resp.GetProgress()), nil
}

// Cancel makes one call.
func (r *restoreItemV2) Cancel(ctx context.Context, req *restoreitemv2.OperationRequest) error {
	ctx, err := r.plugin.withCallMetadata(ctx)
	if err != nil {
		return err
	}
	_, err = r.client.Cancel(ctx, &restoreitemv2pb.CancelRequest{
		Plugin: r.name, OperationID: req.OperationID, Restore: req.Restore.Raw,
	})
	return toOperationError(err)
}

// AreAdditionalItemsReady makes one call.
func (r *restoreItemV2) AreAdditionalItemsReady(ctx context.Context, req *restoreitemv2.ReadyRequest) (bool, error) {
	ctx, err := r.plugin.withCallMetadata(ctx)
	if err != nil {
		return false, err
	}
	refs, err := wire.RefsTo("additional", req.AdditionalItems)
	if err != nil {
		return false, err
	}
	resp, err := r.client.AreAdditionalItemsReady(ctx, &restoreitemv2pb.AreAdditionalItemsReadyRequest{
		Plugin: r.name, Restore: req.Restore.Raw, AdditionalItems: refs,
	})
	return resp.GetReady(), err
}

func encodeRestoreObjects(req *item.RestoreRequest) (object, archived []byte, err error) {
	if object, err = encodeObject(req.Item); err != nil {
		return nil, nil, err
	}
	archived, err = encodeObject(req.ItemFromBackup)
	return object, archived, err
}

func newRestoreResponse(
	req *item.RestoreRequest, raw []byte, additional []*itempb.ResourceIdentifier, skip bool,
) (*item.RestoreResponse, error) {
	answered, err := wire.ObjectFrom(raw)
	if err != nil {
		return nil, err
	}
	labels, err := extractBackupLabels(req.Item, answered)
	if err != nil {
		return nil, err
	}
	return &item.RestoreResponse{Item: answered, AdditionalItems: wire.RefsFrom(additional), SkipRestore: skip, BackupLabels: labels}, nil
}
