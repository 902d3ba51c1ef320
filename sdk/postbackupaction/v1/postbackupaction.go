// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is the first version of the interface of a PostBackupAction, which
// runs once per Backup, after its outcome is recorded, whatever it was.
//
// Implement [PostBackupAction] and register it with
// serve.Server.RegisterPostBackupActionV1. The interface never changes: a method
// more would be package v2, beside this one. It is NOT the place for fields of
// requests and responses, which all run-once kinds share in package hook.
package v1

import (
	"context"

	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// PostBackupAction runs once per Backup, after its outcome is recorded, whatever it was. One instance serves
// all calls of its name in a process: it must be safe for concurrent use by
// different runs, while calls of one run (one idempotency key) never overlap.
type PostBackupAction interface {
	// Execute cleans up after the backup or tells somebody about it. An error is
	// recorded and does not change the outcome of the backup. If a pre action of
	// the same name was started, this is its clean-up, and must work also when the
	// pre action failed, was interrupted or returned no outputs.
	// It must be idempotent per Request.IdempotencyKey and return soon
	// after ctx ends.
	Execute(ctx context.Context, req *hook.Request) (*hook.Response, error)
}
