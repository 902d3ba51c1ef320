// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"maps"

	deletev1 "github.com/grapnel-dev/grapnel/sdk/deleteaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	deletepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/deleteaction/v1"
)

// DeletionFrom returns the request that a DeleteAction gets.
func DeletionFrom(in *deletepb.ExecuteRequest) (*deletev1.DeleteRequest, error) {
	backup, err := hook.ParseBackup(in.GetBackup())
	if err != nil {
		return nil, err
	}
	out := &deletev1.DeleteRequest{
		Action: in.GetPlugin(), IdempotencyKey: in.GetIdempotencyKey(), Attempt: in.GetAttempt(),
		Backup: backup, Parameters: map[string]string{}, BackupOutputs: outputsFrom(in.GetBackupOutputs()),
	}
	maps.Copy(out.Parameters, in.GetParameters())
	return out, nil
}

// DeletionTo is the reverse of DeletionFrom.
func DeletionTo(in *deletev1.DeleteRequest, callID string) *deletepb.ExecuteRequest {
	return &deletepb.ExecuteRequest{
		Plugin: in.Action, IdempotencyKey: in.IdempotencyKey, Attempt: in.Attempt, Backup: in.Backup.Raw,
		Parameters: in.Parameters, BackupOutputs: outputsTo(in.BackupOutputs), CallId: callID,
	}
}

// BackupSelectorTo returns the message for a selector of Backups, or an error if the
// selector violates the contract.
func BackupSelectorTo(in deletev1.Selector) (*deletepb.AppliesToResponse, error) {
	if _, err := in.Parse(); err != nil {
		return nil, fmt.Errorf("the action returned an invalid selector of Backups: %w", err)
	}
	return &deletepb.AppliesToResponse{Selector: in.LabelSelector}, nil
}
