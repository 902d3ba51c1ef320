// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sdk helps you extend Grapnel with your own code: code that runs before and after
// a backup or a restore (hooks), when a backup is deleted, or for each object that is
// backed up or restored, and code that stores backups (object stores).
// docs/plugins/AUTHORING.md is a longer introduction.
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
// Build a static binary, put it where the operator can read it, and name it in a Plugin
// object. The operator starts the process, lists the actions that it provides and calls
// them over gRPC; package serve does everything in between.
//
// The other kinds work the same way: each has a package with its interface and a
// registration method in package serve.
//
// # What the operator promises and expects for all kinds
//
//   - Deadline. The ctx ends when the attempt times out or the run is canceled. Return soon
//     after that: a process that still works on an abandoned call may be killed to make
//     room for the next attempt.
//   - Errors. Return an ordinary error, one sentence that says what to do. A panic is
//     reported as a failure; the process keeps running.
//   - Logs. Use [Logger]; its lines appear in the log of the run that they belong to, even
//     if the process serves several runs at once. Lines printed by other means are
//     attributed only while a single call is in progress. Do not write to standard output
//     before Serve: the handshake uses it.
//   - Parameters. [Parameters] are what the user configured for the action in the Backup or
//     Restore. Validate them: other users may write them.
//   - Concurrency. One instance serves all calls of its name in a process concurrently.
//
// # Additional rules for hooks
//
//   - Idempotency. The operator may crash after your action succeeded and before it
//     recorded the result. Then it requests the same work again. Request.IdempotencyKey is
//     the same for all attempts of one run and different for every run. The SDK never runs
//     two calls with one key at the same time.
//   - Long work. Return [hook.Again] to be called again later instead of holding a call
//     open for hours.
//   - Pairs. A name registered both as PreBackupAction and as PostBackupAction is a pair:
//     the post action always runs if the pre action was started, even if it failed
//     half-way. Put the clean-up there, and make it work even if the pre action did not
//     finish. The same holds for PreRestoreAction and PostRestoreAction; the two pairs are
//     independent of each other.
//   - Outputs. What a pre action returns in Response.Outputs is handed to the post actions
//     of the same run (Request.Outputs). Outputs of PreBackup actions are stored with the
//     backup and handed to the actions of every restore of it (Request.BackupOutputs),
//     possibly years later and in another cluster. Never put a secret there. For the limits
//     see package hook.
//
// # Additional rules for a DeleteAction
//
//   - Idempotency works as for hooks. Data that no longer exists is not an error.
//   - An error does not prevent the deletion of the backup. The action is retried a few
//     times. Then the error is recorded, because data may be left behind.
//
// # Additional rules for actions on objects and for object stores
//
//   - Actions on objects are asked once per run which objects they apply to, and are then
//     called for each of these objects. Returning nil leaves the object unchanged; an error
//     concerns that object only.
//   - Asynchronous actions on objects start operations, work that continues after the call
//     returns. The operator stores their IDs, polls their progress, also after a restart,
//     and may cancel them.
//   - An ObjectStore stores an object completely or not at all.
//   - All of these kinds except the asynchronous ones are also served under Velero's names.
//     One program can extend both.
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
//   - serve: the complete main function of a plugin
//   - plugintest: run your plugin inside a test and check it against the contract
//   - proto: the wire protocol, for authors of SDKs in other languages
//
// Package sdk is not a client of the Kubernetes API and does not include one. It imports
// neither the API types nor the internals of Grapnel.
package sdk
