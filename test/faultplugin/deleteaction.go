// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"os"
	"strings"

	"github.com/grapnel-dev/grapnel/sdk"
	deletev1 "github.com/grapnel-dev/grapnel/sdk/deleteaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// deleteAction is a DeleteAction that commits the faults of the hooks.
type deleteAction struct{ action action }

// AppliesTo returns the configured selector, or commits a fault: "fault:panic".
func (d deleteAction) AppliesTo(ctx context.Context) (deletev1.Selector, error) {
	selector := cmp.Or(sdk.Parameters(ctx)["selector"], os.Getenv("FAULT_SELECTOR"))
	if fault, ok := strings.CutPrefix(selector, "fault:"); ok {
		_, err := d.action.Execute(ctx, &hook.Request{Parameters: map[string]string{"fault": fault}})
		return deletev1.Selector{}, err
	}
	return deletev1.Selector{LabelSelector: selector}, nil
}

// Execute commits the fault in the parameter "fault". It logs its request.
func (d deleteAction) Execute(ctx context.Context, req *deletev1.DeleteRequest) error {
	sdk.Logger(ctx).Info("Removing what belongs to a backup",
		"backup", req.Backup.Name, "attempt", req.Attempt, "made", req.BackupOutputs[req.Action]["from"])
	_, err := d.action.Execute(ctx, &hook.Request{
		Action: req.Action, IdempotencyKey: req.IdempotencyKey, Attempt: req.Attempt, Backup: req.Backup, Parameters: req.Parameters,
	})
	return err
}
