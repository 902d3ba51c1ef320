// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deleteitemv1 "github.com/grapnel-dev/grapnel/sdk/deleteitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/internal/wire"
	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	deleteitempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/deleteitemaction/v1"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
)

// NewBackupItemRequest returns a request for an object of a sample Backup, for
// BackupItemActions.
func NewBackupItemRequest(object *unstructured.Unstructured) *item.BackupRequest {
	return &item.BackupRequest{Item: object, Backup: mustParse(hook.ParseBackup([]byte(sampleItemBackup)))}
}

// NewDeleteItemRequest returns a request for an object of the Backup of
// NewBackupItemRequest, for DeleteItemActions.
func NewDeleteItemRequest(object *unstructured.Unstructured) *item.DeleteRequest {
	return &item.DeleteRequest{Item: object, Backup: mustParse(hook.ParseBackup([]byte(sampleItemBackup)))}
}

// NewRestoreItemRequest returns a request for an object of a sample Restore into another
// namespace, for RestoreItemActions. As in requests of the operator, the object is in its
// namespace in the backup.
func NewRestoreItemRequest(object *unstructured.Unstructured) *item.RestoreRequest {
	return &item.RestoreRequest{
		Item: object, ItemFromBackup: object, Restore: mustParse(hook.ParseRestore([]byte(sampleItemRestore))),
	}
}

// DeleteItemActionV1 returns version 1 of the DeleteItemAction with a name. It behaves like
// BackupItemActionV1.
func (p *Plugin) DeleteItemActionV1(name string) deleteitemv1.DeleteItemAction {
	return &deleteItemV1{plugin: p, name: name, client: deleteitempb.NewDeleteItemActionClient(proto.VeleroConn(p.conn))}
}

type deleteItemV1 struct {
	plugin *Plugin
	name   string
	client deleteitempb.DeleteItemActionClient
}

// AppliesTo makes one call.
func (d *deleteItemV1) AppliesTo(ctx context.Context) (item.Selector, error) {
	return d.plugin.callAppliesTo(ctx, d.name, d.client.AppliesTo)
}

// Execute makes one call.
func (d *deleteItemV1) Execute(ctx context.Context, req *item.DeleteRequest) error {
	raw, err := encodeObject(req.Item)
	if err != nil {
		return err
	}
	if ctx, err = d.plugin.withCallMetadata(ctx); err != nil {
		return err
	}
	_, err = d.client.Execute(ctx, &deleteitempb.ExecuteRequest{Plugin: d.name, Item: raw, Backup: req.Backup.Raw})
	return err
}

// callAppliesTo makes one call of a method AppliesTo.
func (p *Plugin) callAppliesTo(
	ctx context.Context, name string, method clientMethod[itempb.AppliesToRequest, itempb.AppliesToResponse],
) (item.Selector, error) {
	ctx, err := p.withCallMetadata(ctx)
	if err != nil {
		return item.Selector{}, err
	}
	resp, err := method(ctx, &itempb.AppliesToRequest{Plugin: name})
	if err != nil {
		return item.Selector{}, err
	}
	return wire.SelectorFrom(resp), nil
}

func encodeObject(object *unstructured.Unstructured) ([]byte, error) {
	if object == nil {
		return nil, errors.New("the request has no object")
	}
	raw, err := json.Marshal(object.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding the object: %w", err)
	}
	return raw, nil
}

// extractBackupLabels removes the labels for the Backup from the object of a response and
// returns them. Like the operator, it ignores labels that were in the object before.
func extractBackupLabels(sent, answered *unstructured.Unstructured) (map[string]string, error) {
	annotations := answered.GetAnnotations()
	encoded, ok := annotations[item.AnnotationBackupLabels]
	if !ok || encoded == sent.GetAnnotations()[item.AnnotationBackupLabels] {
		return nil, nil
	}
	var labels map[string]string
	if err := json.Unmarshal([]byte(encoded), &labels); err != nil {
		return nil, fmt.Errorf("the annotation %s is not a JSON object of strings: %w", item.AnnotationBackupLabels, err)
	}
	delete(annotations, item.AnnotationBackupLabels)
	answered.SetAnnotations(annotations)
	if len(annotations) == 0 {
		unstructured.RemoveNestedField(answered.Object, "metadata", "annotations")
	}
	return labels, nil
}
