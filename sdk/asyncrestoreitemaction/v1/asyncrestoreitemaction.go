// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"time"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// AsyncRestoreItemAction sees objects on their way into the cluster and starts operations
// on them, which go on after Start. One instance serves all calls of its name in a
// process: it must be safe for concurrent use. All methods return soon, at the latest
// when ctx ends.
type AsyncRestoreItemAction interface {
	// AppliesTo says which objects concern the action. It is asked once per run.
	AppliesTo(ctx context.Context) (item.Selector, error)
	// Start looks at one object, which is not created yet, and may start an operation: it
	// returns the ID as soon as the work has begun. An error keeps the object out of the
	// cluster and is reported as one of this object; the restore goes on, and nothing may
	// be left running. It is not called in a dry run.
	Start(ctx context.Context, req *item.RestoreRequest) (*Started, error)
	// Progress tells how far an operation is. An error that matches
	// item.ErrUnknownOperation says that there is no such operation; after the third in a
	// row the operator gives it up. Another error means that the progress is not known now. An operation that
	// failed is no error: it is completed, with Err set. One that is completed stays so.
	Progress(ctx context.Context, req *OperationRequest) (*item.Progress, error)
	// Cancel asks for the end of an operation, and does not wait for it: Progress tells
	// when it has ended. It may be called again for one that is being cancelled or has
	// ended, which is no error. An error refuses to cancel; one that matches
	// item.ErrUnknownOperation says that there is no such operation.
	Cancel(ctx context.Context, req *OperationRequest) error
	// AreAdditionalItemsReady is asked again and again, after an answer of Start with
	// WaitForAdditionalItems, until it says yes or the time is over.
	AreAdditionalItemsReady(ctx context.Context, req *ReadyRequest) (bool, error)
}

// Started is what an action made of an object. A nil one changes nothing and means that
// no operation was started.
type Started struct {
	item.RestoreResponse
	// OperationID names the operation that was started, in at most
	// item.MaxOperationIDBytes; empty means none. It was started before the object is
	// created.
	OperationID string
	// PollInterval is how often the action wants to be asked for the progress. Zero means
	// that the operator decides, and it need not follow another value exactly. Less is an
	// error.
	PollInterval time.Duration
	// WaitForAdditionalItems lets the object wait until AreAdditionalItemsReady says
	// yes, for AdditionalItemsReadyTimeout at most; zero means ten minutes, and less is an
	// error.
	WaitForAdditionalItems      bool
	AdditionalItemsReadyTimeout time.Duration
}

// OperationRequest names an operation that Start started, perhaps in an earlier process.
type OperationRequest struct {
	// OperationID is the one that Start returned.
	OperationID string
	// Restore is the Restore that it belongs to.
	Restore item.Restore
}

// ReadyRequest names the additional items of one object.
type ReadyRequest struct {
	// AdditionalItems are those that were restored, by the namespaces they are in now.
	AdditionalItems []item.Ref
	// Restore is the Restore.
	Restore item.Restore
}
