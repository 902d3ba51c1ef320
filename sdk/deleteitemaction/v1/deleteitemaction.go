// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is the first version of the interface of a DeleteItemAction, which
// sees the objects of a backup that is being deleted. It is served as Velero's
// DeleteItemAction.
//
// Implement [DeleteItemAction] and register it with
// serve.Server.RegisterDeleteItemActionV1.
package v1

import (
	"context"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// DeleteItemAction removes data that belongs to an archived object and is stored outside
// the archive, for example a snapshot. One instance serves all calls of its name in a
// process: it must be safe for concurrent use.
type DeleteItemAction interface {
	// AppliesTo returns which objects the action applies to. It is called once per run.
	AppliesTo(ctx context.Context) (item.Selector, error)
	// Execute cleans up after one archived object. It must be idempotent: data that no
	// longer exists is not an error. An error does not prevent the deletion of the backup.
	Execute(ctx context.Context, req *item.DeleteRequest) error
}
