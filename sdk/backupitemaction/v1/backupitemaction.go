// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is the first version of the interface of a BackupItemAction, which
// sees single objects on their way into an archive. It is served as Velero's
// BackupItemAction.
//
// Implement [BackupItemAction] and register it with
// serve.Server.RegisterBackupItemActionV1. The interface never changes: a method
// more is package v2, beside this one.
package v1

import (
	"context"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// BackupItemAction sees objects on their way into the archive: it may change them,
// and name others that have to be archived with them. One instance serves all calls
// of its name in a process: it must be safe for concurrent use.
type BackupItemAction interface {
	// AppliesTo says which objects concern the action. It is asked once per run.
	AppliesTo(ctx context.Context) (item.Selector, error)
	// Execute looks at one object and returns soon, at the latest when ctx ends. An
	// error keeps the object out of the archive and is reported as one of this
	// object; the backup goes on.
	Execute(ctx context.Context, req *item.BackupRequest) (*item.BackupResponse, error)
}
