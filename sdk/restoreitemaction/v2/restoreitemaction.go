// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v2 is the second version of the interface of a RestoreItemAction: the action may
// start operations and delay an object until its additional items are ready. It is served
// as Velero's RestoreItemActionV2.
//
// Implement [RestoreItemAction] and register it with
// serve.Server.RegisterRestoreItemActionV2. For an action that starts no operation and
// waits for nothing, package v1 is enough.
package v2

import (
	"context"
	"time"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// RestoreItemAction sees objects on their way into the cluster: it may change them,
// leave them out, name others that have to be restored and ready first, and start
// operations on them. One instance serves all calls of its name in a process: it
// must be safe for concurrent use.
type RestoreItemAction interface {
	// AppliesTo returns which objects the action applies to. It is called once per run.
	AppliesTo(ctx context.Context) (item.Selector, error)
	// Execute handles one object and must return soon, at the latest when ctx ends. An
	// error keeps the object out of the cluster and is reported for this object; the
	// restore continues. Execute is not called in a dry run.
	Execute(ctx context.Context, req *item.RestoreRequest) (*Response, error)
	// Progress returns the progress of an operation. An error that matches
	// item.ErrUnknownOperation means that there is no such operation; any other error means
	// that the progress is currently unknown. A failed operation is returned as completed,
	// with Err set.
	Progress(ctx context.Context, req *OperationRequest) (*item.Progress, error)
	// Cancel requests the cancellation of an operation and does not wait for it to end. It
	// may be called again. Its errors have the same meaning as for Progress.
	Cancel(ctx context.Context, req *OperationRequest) error
	// AreAdditionalItemsReady is polled after Execute returned WaitForAdditionalItems,
	// until it returns true or the timeout expires.
	AreAdditionalItemsReady(ctx context.Context, req *ReadyRequest) (bool, error)
}

// Response is the response of an action for one object. A nil Response changes nothing.
type Response struct {
	item.RestoreResponse
	// OperationID identifies the operation that was started; empty means none. The
	// operation is started before the object is created.
	OperationID string
	// WaitForAdditionalItems delays the object until AreAdditionalItemsReady returns true,
	// but at most for AdditionalItemsReadyTimeout. Zero means ten minutes.
	WaitForAdditionalItems      bool
	AdditionalItemsReadyTimeout time.Duration
}

// OperationRequest identifies an operation that Execute started.
type OperationRequest struct {
	// OperationID is the ID that Execute returned.
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
