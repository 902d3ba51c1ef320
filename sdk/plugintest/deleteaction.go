// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"

	deletev1 "github.com/grapnel-dev/grapnel/sdk/deleteaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/internal/wire"
	deletepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/deleteaction/v1"
)

// sampleDeletedBackup is the Backup of NewRequest in the form that a DeleteAction gets:
// velero.io/v1.
const sampleDeletedBackup = `{"apiVersion":"velero.io/v1","kind":"Backup",
	"metadata":{"name":"nightly","namespace":"grapnel-system","uid":"4d7c7e3e-0000-4000-8000-000000000001",
	"labels":{"app":"shop"}},
	"spec":{"includedNamespaces":["shop"],"storageLocation":"default"},"status":{"phase":"Completed"}}`

// NewDeleteRequest returns a request for the sample Backup of NewRequest, which is being
// deleted, for DeleteActions.
func NewDeleteRequest() *deletev1.DeleteRequest {
	return &deletev1.DeleteRequest{
		IdempotencyKey: "key", Attempt: 1, Backup: mustParse(hook.ParseBackup([]byte(sampleDeletedBackup))),
		Parameters: map[string]string{}, BackupOutputs: map[string]map[string]string{},
	}
}

// DeleteActionV1 returns version 1 of the DeleteAction with a name. Its methods call the
// plugin as the operator would; their errors are as for PreBackup. AppliesTo gets the
// parameters and the key of WithParameters and WithKey; Execute has them in its request.
func (p *Plugin) DeleteActionV1(name string) deletev1.DeleteAction {
	return &deleteClientV1{plugin: p, name: name, client: deletepb.NewDeleteActionClient(p.conn)}
}

// deleteClientV1 calls version 1.
type deleteClientV1 struct {
	plugin *Plugin
	name   string
	client deletepb.DeleteActionClient
}

// AppliesTo makes one call.
func (d *deleteClientV1) AppliesTo(ctx context.Context) (deletev1.Selector, error) {
	a := attributesFromContext(ctx)
	resp, err := d.client.AppliesTo(ctx, &deletepb.AppliesToRequest{
		Plugin: d.name, IdempotencyKey: a.key, Parameters: a.parameters, CallId: d.plugin.callIDFor(ctx),
	})
	if err != nil {
		return deletev1.Selector{}, err
	}
	return deletev1.Selector{LabelSelector: resp.GetSelector()}, nil
}

// Execute makes one call.
func (d *deleteClientV1) Execute(ctx context.Context, req *deletev1.DeleteRequest) error {
	in := *req
	in.Action = d.name
	_, err := d.client.Execute(ctx, wire.DeletionTo(&in, d.plugin.callIDFor(ctx)))
	return err
}
