// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v2 is the second version of the interface of a BackupItemAction: Execute may
// start an operation that continues after the call. It is served as Velero's
// BackupItemActionV2.
//
// Implement [BackupItemAction] and register it with
// serve.Server.RegisterBackupItemActionV2. For an action that starts no operation, package
// v1 is enough.
package v2

import (
	"context"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// BackupItemAction sees objects on their way into the archive: it may change them, name
// others that must be archived with them, and start operations on them. One instance serves
// all calls of its name in a process: it must be safe for concurrent use.
type BackupItemAction interface {
	// AppliesTo returns which objects the action applies to. It is called once per run.
	AppliesTo(ctx context.Context) (item.Selector, error)
	// Execute handles one object and must return soon, at the latest when ctx ends. An
	// error keeps the object out of the archive and is reported for this object; the backup
	// continues.
	Execute(ctx context.Context, req *item.BackupRequest) (*Response, error)
	// Progress returns the progress of an operation. An error that matches
	// item.ErrUnknownOperation means that there is no such operation; any other error means
	// that the progress is currently unknown. A failed operation is returned as completed,
	// with Err set.
	Progress(ctx context.Context, req *OperationRequest) (*item.Progress, error)
	// Cancel requests the cancellation of an operation and does not wait for it to end. It
	// may be called again. Its errors have the same meaning as for Progress.
	Cancel(ctx context.Context, req *OperationRequest) error
}

// Response is the response of an action for one object. A nil Response changes nothing.
type Response struct {
	item.BackupResponse
	// OperationID identifies the operation that was started; empty means none.
	OperationID string
	// PostOperationItems are archived when the operation has ended, again if they already
	// were.
	PostOperationItems []item.Ref
}

// OperationRequest identifies an operation that Execute started.
type OperationRequest struct {
	// OperationID is the ID that Execute returned.
	OperationID string
	// Backup is the Backup that the operation belongs to.
	Backup item.Backup
}
