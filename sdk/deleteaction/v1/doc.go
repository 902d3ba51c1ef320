// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is the first version of the interface of a DeleteAction, which runs once when a
// backup is deleted and removes what belongs to it elsewhere: registrations, copies,
// snapshots that were taken for the backup as a whole.
//
// Implement [DeleteAction] and register it with serve.Server.RegisterDeleteActionV1. The
// interface never changes: a method more would be package v2, beside this one. What belongs
// to single archived objects is easier to find in a DeleteItemAction, package
// deleteitemaction/v1, which is shown each of them. The kind is Grapnel's own and Velero is
// not told of it.
//
// # What the operator promises and expects
//
//   - DeleteActions run first, one after another in the order of their names, while the
//     backup is still whole: DeleteItemActions, files and objects follow.
//   - Nothing prevents the deletion. An attempt that fails is repeated with growing pauses;
//     after the last one that is recorded, with the error as what was left behind, and the
//     deletion goes on. Nobody asks the action again.
//   - What is gone is no error. The operator may have died after an attempt worked, somebody
//     may have cleaned up by hand, and a deletion may be asked for twice.
//   - Find what to remove by the UID of the Backup and by what your PreBackup actions put out
//     (DeleteRequest.BackupOutputs). Names may be used again, in this cluster or another one.
//     The backup may have been made before your action was there, by another cluster or by
//     Velero: then there is nothing to remove.
//   - Labels, annotations and outputs may have been changed by whoever can write to the Backup
//     or to its storage. Check them before they become part of a path, a query or a command.
package v1
