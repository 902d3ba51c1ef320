// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is the first version of the interface of a BackupItemAction, which
// sees single objects on their way into an archive. It is served as Velero's
// BackupItemAction.
//
// Implement [BackupItemAction] and register it with
// serve.Server.RegisterBackupItemActionV1. The interface never changes: an additional
// method means a new version, package v2.
package v1

import (
	"context"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// BackupItemAction sees objects on their way into the archive: it may change them, and name
// others that must be archived with them. One instance serves all calls of its name in a
// process: it must be safe for concurrent use.
type BackupItemAction interface {
	// AppliesTo returns which objects the action applies to. It is called once per run.
	AppliesTo(ctx context.Context) (item.Selector, error)
	// Execute handles one object and must return soon, at the latest when ctx ends. An
	// error keeps the object out of the archive and is reported for this object; the backup
	// continues.
	Execute(ctx context.Context, req *item.BackupRequest) (*item.BackupResponse, error)
}
