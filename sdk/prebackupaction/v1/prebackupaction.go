// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is the first version of the interface of a PreBackupAction, which
// runs once per Backup, before its items are collected.
//
// Implement [PreBackupAction] and register it with serve.Server.RegisterPreBackupActionV1.
// The interface never changes: an additional method means a new version, package v2.
// Requests and responses are defined in package hook, which all run-once kinds share.
package v1

import (
	"context"

	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// PreBackupAction runs once per Backup, before its items are collected. One instance serves
// all calls of its name in a process: it must be safe for concurrent use by
// different runs, while calls of one run (one idempotency key) never overlap.
type PreBackupAction interface {
	// Execute prepares the cluster for the backup, for example by freezing a database. An
	// error means that nothing is archived; the post action of the same name runs
	// nevertheless. Execute must be idempotent per Request.IdempotencyKey and return soon
	// after ctx ends.
	Execute(ctx context.Context, req *hook.Request) (*hook.Response, error)
}
