// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is the first version of the interface of a PostRestoreAction, which
// runs once per Restore, after its outcome is recorded, whatever it was.
//
// Implement [PostRestoreAction] and register it with
// serve.Server.RegisterPostRestoreActionV1. The interface never changes: a method
// more would be package v2, beside this one. It is NOT the place for fields of
// requests and responses, which all run-once kinds share in package hook.
package v1

import (
	"context"

	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// PostRestoreAction runs once per Restore, after its outcome is recorded, whatever it was. The outcome is recorded
// when the operations that restored items started have ended, too.
// One instance serves all calls of its name in a process: it must be safe for
// concurrent use by different runs, while calls of one run (one idempotency key)
// never overlap.
type PostRestoreAction interface {
	// Execute cleans up after the restore or tells somebody about it. An error is
	// recorded and does not change the outcome of the restore. If a pre action of
	// the same name was started, this is its clean-up, and must work also when the
	// pre action failed, was interrupted or returned no outputs.
	// It must be idempotent per Request.IdempotencyKey and return soon
	// after ctx ends.
	Execute(ctx context.Context, req *hook.Request) (*hook.Response, error)
}
