// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is the first version of the interface of a PostRestoreAction, which runs once
// per Restore, after its outcome is recorded, for every outcome.
//
// Implement [PostRestoreAction] and register it with
// serve.Server.RegisterPostRestoreActionV1. The interface never changes: an additional
// method means a new version, package v2. Requests and responses are defined in package
// hook, which all run-once kinds share.
package v1

import (
	"context"

	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// PostRestoreAction runs once per Restore, after its outcome is recorded, for every outcome. The
// outcome is recorded after all operations that were started for restored items have ended. One
// instance serves all calls of its name in a process: it must be safe for concurrent use by
// different runs, while calls of one run (one idempotency key) never overlap.
type PostRestoreAction interface {
	// Execute cleans up after the restore or notifies someone about it. An error is
	// recorded and does not change the outcome of the restore. If a pre action of the same
	// name was started, Execute is its clean-up and must work even if the pre action
	// failed, was interrupted or returned no outputs. Execute must be idempotent per
	// Request.IdempotencyKey and return soon after ctx ends.
	Execute(ctx context.Context, req *hook.Request) (*hook.Response, error)
}
