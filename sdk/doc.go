// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sdk is what you need to extend Grapnel with code of your own: once before
// and once after a backup or a restore (hooks), once when a backup is deleted, for single
// objects on their way into an archive or a cluster, and to keep backups somewhere else
// (object stores).
// docs/plugins/AUTHORING.md is the longer introduction.
//
// # A hook in 20 lines
//
//	package main
//
//	import (
//		"context"
//
//		"github.com/grapnel-dev/grapnel/sdk"
//		"github.com/grapnel-dev/grapnel/sdk/hook"
//		prebackupv1 "github.com/grapnel-dev/grapnel/sdk/prebackupaction/v1"
//		"github.com/grapnel-dev/grapnel/sdk/serve"
//	)
//
//	type freeze struct{}
//
//	func (freeze) Execute(ctx context.Context, req *hook.Request) (*hook.Response, error) {
//		sdk.Logger(ctx).Info("Freezing the database", "backup", req.Backup.Name)
//		return hook.Done(), nil
//	}
//
//	func main() {
//		serve.New().RegisterPreBackupActionV1("example.io/freeze",
//			func() (prebackupv1.PreBackupAction, error) { return freeze{}, nil }).Serve()
//	}
//
// Build it to a static binary, put it where the operator can read it, and name
// it in a Plugin object. The operator starts the process, asks it what it
// provides and calls it over gRPC; everything between is done by package serve.
//
// The other kinds look the same: an interface of a package, a registration method of
// package serve.
//
// # What the operator promises and expects, whatever the kind
//
//   - Deadline. The ctx ends when the attempt's time is over or the run is
//     cancelled. Return soon after it does: a process that still works on an
//     abandoned call may be killed to make room for the next attempt.
//   - Errors. Return an ordinary error, one sentence that says what to do. A
//     panic is reported as a failure, the process lives on.
//   - Logs. Use [Logger]; its lines end up in the log of the run they belong
//     to, also when the process works for several at once. Lines printed in other
//     ways are attributed only while a single call is in progress. Do not write
//     to standard output before Serve: the handshake uses it.
//   - Parameters. [Parameters] are what the user configured for the action in the
//     Backup or Restore. Check them: others may write them.
//   - Concurrency. One instance serves all calls of its name in a process, at the same
//     time.
//
// # What holds for hooks besides
//
//   - Idempotency. The operator may have died after your action worked and
//     before it could write that down, so the same work is asked for again.
//     Request.IdempotencyKey is the same for all attempts of one run and
//     different for every run. The SDK never runs two calls with one key at the
//     same time.
//   - Long work. Return [hook.Again] and be called again later instead of
//     holding a call open for hours.
//   - Pairs. A name registered both as PreBackupAction and as PostBackupAction is
//     a pair: the post action runs, whatever happened, if the pre action was
//     started, even if it failed half-way. Put the clean-up there and make it
//     work when the pre action did not finish. The same holds for PreRestoreAction
//     and PostRestoreAction; the two pairs are independent of each other.
//   - Outputs. What a pre action returns in Response.Outputs is handed to the post
//     actions of the same run (Request.Outputs). That of PreBackup actions is kept
//     with the backup and handed to the actions of every restore of it
//     (Request.BackupOutputs), perhaps years later and in another cluster. Never
//     put a secret there. For the limits see package hook.
//
// # What holds for a DeleteAction besides
//
//   - Idempotency is as for hooks, and what is gone already is no error.
//   - An error does not keep the backup from being deleted. The action is called again a few
//     times, then the error is recorded as what was left behind.
//
// # What holds for actions on objects and for object stores besides
//
//   - Actions on objects are asked once per run what they apply to, and then shown each
//     such object. nil leaves it as it is; an error is one of that object alone.
//   - Asynchronous actions on objects start operations, work that goes on after the call:
//     the operator keeps their IDs, asks how far they are, also after a restart, and may
//     cancel them.
//   - An ObjectStore stores an object as a whole or not at all.
//   - All but the asynchronous kinds are served under Velero's names too, so that one
//     program extends both.
//
// # Where to look
//
//   - hook: requests and responses of hooks; prebackupaction/v1, postbackupaction/v1,
//     prerestoreaction/v1, postrestoreaction/v1: their interfaces
//   - deleteaction/v1: the interface of a DeleteAction and its request
//   - item: requests and responses of actions on objects; backupitemaction/v1 and v2,
//     restoreitemaction/v1 and v2, deleteitemaction/v1, asyncbackupitemaction/v1,
//     asyncrestoreitemaction/v1: their interfaces
//   - objectstore/v1: the interface of object stores
//   - serve: the whole main function of a plugin
//   - plugintest: run your plugin inside a test and check it against the contract
//   - proto: the wire protocol, for authors of SDKs in other languages
//
// It is NOT a client of the Kubernetes API and brings none with it; it imports
// neither the API types nor the internals of Grapnel.
package sdk
