// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/grapnel-dev/grapnel/sdk"
	backupitemv2 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v2"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// takeSnapshot is a BackupItemAction of version 2: it starts a snapshot of every labeled
// claim. The snapshot may continue while the backup continues.
type takeSnapshot struct{ snapshots *snapshots }

// AppliesTo selects the claims to snapshot.
func (takeSnapshot) AppliesTo(context.Context) (item.Selector, error) {
	return snapshotClaimSelector(), nil
}

// Execute starts a snapshot of one claim, and records its name in the archived claim, for
// the actions of restores and deletions. The name is the same if the operator calls again,
// so that there is only one snapshot.
func (t takeSnapshot) Execute(ctx context.Context, req *item.BackupRequest) (*backupitemv2.Response, error) {
	claim := req.Item.GetNamespace() + "/" + req.Item.GetName()
	name := fmt.Sprintf("%s.%s", req.Backup.UID, req.Item.GetUID())
	if err := t.snapshots.createSnapshot(snapshot{Name: name, Claim: claim}); err != nil {
		return nil, err
	}
	sdk.Logger(ctx).Info("Began a snapshot", "claim", claim, "snapshot", name)
	annotations := req.Item.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationSnapshot] = name
	req.Item.SetAnnotations(annotations)
	return &backupitemv2.Response{BackupResponse: item.BackupResponse{Item: req.Item}, OperationID: name}, nil
}

// Progress returns the progress of a snapshot. These snapshots are complete as soon as they
// exist.
func (t takeSnapshot) Progress(_ context.Context, req *backupitemv2.OperationRequest) (*item.Progress, error) {
	exists, err := t.snapshots.hasSnapshot(req.OperationID)
	if err != nil {
		return nil, err
	}
	progress := &item.Progress{Completed: true, NCompleted: 1, NTotal: 1, OperationUnits: "snapshots"}
	if !exists {
		progress.NCompleted, progress.Err = 0, "the snapshot does not exist"
	}
	return progress, nil
}

// Cancel removes the snapshot.
func (t takeSnapshot) Cancel(_ context.Context, req *backupitemv2.OperationRequest) error {
	return t.snapshots.deleteSnapshot(req.OperationID)
}
