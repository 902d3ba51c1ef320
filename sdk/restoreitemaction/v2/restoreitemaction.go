// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v2 is the second version of the interface of a RestoreItemAction: it may
// start operations, and let an object wait for those it needs. It is served as
// Velero's RestoreItemActionV2.
//
// Implement [RestoreItemAction] and register it with
// serve.Server.RegisterRestoreItemActionV2. An action that starts nothing and waits
// for nothing needs no more than package v1.
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
	// AppliesTo says which objects concern the action. It is asked once per run.
	AppliesTo(ctx context.Context) (item.Selector, error)
	// Execute looks at one object and returns soon, at the latest when ctx ends. An
	// error keeps the object out of the cluster and is reported as one of this
	// object; the restore goes on. It is not called in a dry run.
	Execute(ctx context.Context, req *item.RestoreRequest) (*Response, error)
	// Progress tells how far an operation is. An error that matches
	// item.ErrUnknownOperation says that there is no such operation, another one that the
	// progress is not known now; an operation that failed is completed, with Err set.
	Progress(ctx context.Context, req *OperationRequest) (*item.Progress, error)
	// Cancel asks for the end of an operation, and does not wait for it. It may be called
	// again. Its errors are as for Progress.
	Cancel(ctx context.Context, req *OperationRequest) error
	// AreAdditionalItemsReady is asked again and again, after an answer of Execute
	// with WaitForAdditionalItems, until it says yes or the time is over.
	AreAdditionalItemsReady(ctx context.Context, req *ReadyRequest) (bool, error)
}

// Response is what an action made of an object. A nil one changes nothing.
type Response struct {
	item.RestoreResponse
	// OperationID names the operation that was started; empty means none. It was
	// started before the object is created.
	OperationID string
	// WaitForAdditionalItems lets the object wait until AreAdditionalItemsReady says
	// yes, for AdditionalItemsReadyTimeout at most; zero means ten minutes.
	WaitForAdditionalItems      bool
	AdditionalItemsReadyTimeout time.Duration
}

// OperationRequest names an operation that Execute started.
type OperationRequest struct {
	// OperationID is the one that Execute returned.
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
