// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"time"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// AsyncRestoreItemAction sees objects on their way into the cluster and starts operations
// on them, which continue after Start returns. One instance serves all calls of its name in
// a process: it must be safe for concurrent use. All methods must return soon, at the
// latest when ctx ends.
type AsyncRestoreItemAction interface {
	// AppliesTo returns which objects the action applies to. It is called once per run.
	AppliesTo(ctx context.Context) (item.Selector, error)
	// Start handles one object, which is not created yet, and may start an operation. It
	// returns the ID as soon as the work has begun. An error keeps the object out of the
	// cluster and is reported for this object; the restore continues. After an error, no
	// work may be left running. Start is not called in a dry run.
	Start(ctx context.Context, req *item.RestoreRequest) (*Started, error)
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
	// AreAdditionalItemsReady is polled after Start returned WaitForAdditionalItems, until
	// it returns true or the timeout expires.
	AreAdditionalItemsReady(ctx context.Context, req *ReadyRequest) (bool, error)
}

// Started is the response of an action for one object. A nil Started changes nothing and
// means that no operation was started.
type Started struct {
	item.RestoreResponse
	// OperationID identifies the operation that was started, in at most
	// item.MaxOperationIDBytes; empty means none. The operation is started before the
	// object is created.
	OperationID string
	// PollInterval is the preferred interval between calls of Progress. Zero means that the
	// operator decides. Other values are a hint. Negative values are an error.
	PollInterval time.Duration
	// WaitForAdditionalItems delays the object until AreAdditionalItemsReady returns true,
	// but at most for AdditionalItemsReadyTimeout. Zero means ten minutes; negative values
	// are an error.
	WaitForAdditionalItems      bool
	AdditionalItemsReadyTimeout time.Duration
}

// OperationRequest identifies an operation that Start started, possibly in an earlier
// process.
type OperationRequest struct {
	// OperationID is the ID that Start returned.
	OperationID string
	// Restore is the Restore that the operation belongs to.
	Restore item.Restore
}

// ReadyRequest lists the additional items of one object.
type ReadyRequest struct {
	// AdditionalItems are the additional items that were restored, in their target
	// namespaces.
	AdditionalItems []item.Ref
	// Restore is the Restore that the items belong to.
	Restore item.Restore
}
