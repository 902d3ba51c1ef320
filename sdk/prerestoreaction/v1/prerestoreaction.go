// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is the first version of the interface of a PreRestoreAction, which
// runs once per Restore, before its items are restored.
//
// Implement [PreRestoreAction] and register it with
// serve.Server.RegisterPreRestoreActionV1. The interface never changes: an additional
// method means a new version, package v2. Requests and responses are defined in package
// hook, which all run-once kinds share.
package v1

import (
	"context"

	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// PreRestoreAction runs once per Restore, before its items are restored.
// One instance serves all calls of its name in a process: it must be safe for
// concurrent use by different runs, while calls of one run (one idempotency key)
// never overlap.
type PreRestoreAction interface {
	// Execute prepares the cluster for the restore, for example by stopping programs that
	// would write to the restored objects. An error means that nothing is restored; the
	// post action of the same name runs nevertheless. Execute must be idempotent per
	// Request.IdempotencyKey and return soon after ctx ends.
	Execute(ctx context.Context, req *hook.Request) (*hook.Response, error)
}
