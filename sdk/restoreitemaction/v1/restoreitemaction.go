// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is the first version of the interface of a RestoreItemAction, which
// sees single objects on their way into a cluster. It is served as Velero's
// RestoreItemAction.
//
// Implement [RestoreItemAction] and register it with
// serve.Server.RegisterRestoreItemActionV1. The interface never changes: an additional
// method means a new version, package v2.
package v1

import (
	"context"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// RestoreItemAction sees objects on their way into the cluster: it may change them,
// leave them out, and name others that have to be restored first. One instance
// serves all calls of its name in a process: it must be safe for concurrent use.
type RestoreItemAction interface {
	// AppliesTo returns which objects the action applies to. It is called once per run.
	AppliesTo(ctx context.Context) (item.Selector, error)
	// Execute handles one object and must return soon, at the latest when ctx ends. An
	// error keeps the object out of the cluster and is reported for this object; the
	// restore continues. Execute is not called in a dry run.
	Execute(ctx context.Context, req *item.RestoreRequest) (*item.RestoreResponse, error)
}
