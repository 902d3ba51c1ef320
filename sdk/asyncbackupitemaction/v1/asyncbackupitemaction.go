// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"time"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// AsyncBackupItemAction sees objects on their way into the archive and starts operations on
// them, which continue after Start returns. One instance serves all calls of its name in a
// process: it must be safe for concurrent use. All methods must return soon, at the latest
// when ctx ends.
type AsyncBackupItemAction interface {
	// AppliesTo returns which objects the action applies to. It is called once per run.
	AppliesTo(ctx context.Context) (item.Selector, error)
	// Start handles one object and may start an operation. It returns the ID as soon as the
	// work has begun. An error keeps the object out of the archive and is reported for this
	// object; the backup continues. After an error, no work may be left running.
	Start(ctx context.Context, req *item.BackupRequest) (*Started, error)
	// Progress returns the progress of an operation. An error that matches item.ErrUnknownOperation
	// means that there is no such operation; after the third in a row the operator records the
	// operation as lost. Any other error means that the progress is currently unknown. A failed
	// operation is not an error: return it as completed, with Err set. A completed operation stays
	// completed.
	Progress(ctx context.Context, req *OperationRequest) (*item.Progress, error)
	// Cancel requests the cancellation of an operation and does not wait for it to end:
	// Progress reports that. Cancel may be called again for an operation that is being
	// canceled or has ended, which is not an error. An error means that the operation was
	// not canceled; one that matches item.ErrUnknownOperation means that there is no such
	// operation.
	Cancel(ctx context.Context, req *OperationRequest) error
}

// CaptureChecker is implemented by an AsyncBackupItemAction that can tell before a backup
// whether it would capture the data of an object. A Backup with spec.volumes.requireCaptured
// fails its validation if a claim would have no data in it, before any PreBackup action runs.
// Without a CaptureChecker, an action counts as capturing the data of every claim it applies to.
type CaptureChecker interface {
	// CheckCapture returns why Start would not capture the data of an object, in one sentence
	// for humans that says what to do; "" means that it would. It changes nothing. Returned text
	// that is the same for several objects is reported once. An error fails the validation.
	CheckCapture(ctx context.Context, req *item.BackupRequest) (notCaptured string, err error)
}

// Started is the response of an action for one object. A nil Started changes nothing and
// means that no operation was started.
type Started struct {
	item.BackupResponse
	// OperationID identifies the operation that was started, in at most
	// item.MaxOperationIDBytes; empty means none.
	OperationID string
	// PostOperationItems are archived when the operation has ended, again if they already
	// were. They are ignored without an operation.
	PostOperationItems []item.Ref
	// PollInterval is the preferred interval between calls of Progress. Zero means that the
	// operator decides. Other values are a hint. Negative values are an error.
	PollInterval time.Duration
	// DataNotCaptured is why the data of the object, a PersistentVolumeClaim, is not captured,
	// in one sentence for humans that says what to do. Text that is the same for several claims
	// is reported once. It is ignored with an operation; empty means that the action does not
	// know.
	DataNotCaptured string
}

// OperationRequest identifies an operation that Start started, possibly in an earlier
// process.
type OperationRequest struct {
	// OperationID is the ID that Start returned.
	OperationID string
	// Backup is the Backup that the operation belongs to.
	Backup item.Backup
}
