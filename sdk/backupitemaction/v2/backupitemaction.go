// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v2 is the second version of the interface of a BackupItemAction: Execute
// may start an operation that goes on after it. It is served as Velero's
// BackupItemActionV2.
//
// Implement [BackupItemAction] and register it with
// serve.Server.RegisterBackupItemActionV2. An action that starts nothing needs no
// more than package v1.
package v2

import (
	"context"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// BackupItemAction sees objects on their way into the archive: it may change them,
// name others that have to be archived with them, and start operations on them. One
// instance serves all calls of its name in a process: it must be safe for
// concurrent use.
type BackupItemAction interface {
	// AppliesTo says which objects concern the action. It is asked once per run.
	AppliesTo(ctx context.Context) (item.Selector, error)
	// Execute looks at one object and returns soon, at the latest when ctx ends. An
	// error keeps the object out of the archive and is reported as one of this
	// object; the backup goes on.
	Execute(ctx context.Context, req *item.BackupRequest) (*Response, error)
	// Progress tells how far an operation is. An error that matches
	// item.ErrUnknownOperation says that there is no such operation, another one that the
	// progress is not known now; an operation that failed is completed, with Err set.
	Progress(ctx context.Context, req *OperationRequest) (*item.Progress, error)
	// Cancel asks for the end of an operation, and does not wait for it. It may be called
	// again. Its errors are as for Progress.
	Cancel(ctx context.Context, req *OperationRequest) error
}

// Response is what an action made of an object. A nil one changes nothing.
type Response struct {
	item.BackupResponse
	// OperationID names the operation that was started; empty means none.
	OperationID string
	// PostOperationItems are archived, again if need be, when it has ended.
	PostOperationItems []item.Ref
}

// OperationRequest names an operation that Execute started.
type OperationRequest struct {
	// OperationID is the one that Execute returned.
	OperationID string
	// Backup is the Backup that it belongs to.
	Backup item.Backup
}
