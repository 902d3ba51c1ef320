// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is the first version of the interface of a PostBackupAction, which runs once
// per Backup, after its outcome is recorded, for every outcome.
//
// Implement [PostBackupAction] and register it with
// serve.Server.RegisterPostBackupActionV1. The interface never changes: an additional
// method means a new version, package v2. Requests and responses are defined in package
// hook, which all run-once kinds share.
package v1

import (
	"context"

	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// PostBackupAction runs once per Backup, after its outcome is recorded, for every outcome. One
// instance serves all calls of its name in a process: it must be safe for concurrent use by
// different runs, while calls of one run (one idempotency key) never overlap.
type PostBackupAction interface {
	// Execute cleans up after the backup or notifies someone about it. An error is recorded
	// and does not change the outcome of the backup. If a pre action of the same name was
	// started, Execute is its clean-up and must work even if the pre action failed, was
	// interrupted or returned no outputs. Execute must be idempotent per
	// Request.IdempotencyKey and return soon after ctx ends.
	Execute(ctx context.Context, req *hook.Request) (*hook.Response, error)
}
