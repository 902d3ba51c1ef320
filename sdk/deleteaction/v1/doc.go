// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is the first version of the interface of a DeleteAction, which runs once when a
// backup is deleted and removes data that belongs to the backup but is stored elsewhere:
// registrations, copies, snapshots that were taken for the backup as a whole.
//
// Implement [DeleteAction] and register it with serve.Server.RegisterDeleteActionV1. The
// interface never changes: an additional method means a new version, package v2. Data that
// belongs to single archived objects is easier to find in a DeleteItemAction, package
// deleteitemaction/v1, which is called for each object. The kind is specific to Grapnel,
// and Velero does not see it.
//
// # What the operator promises and expects
//
//   - DeleteActions run first, one after another in the order of their names, while the
//     backup is still complete. DeleteItemActions, files and objects follow.
//   - Nothing prevents the deletion. A failed attempt is retried with back-off. After the
//     last attempt, the error is recorded together with what may be left behind, and the
//     deletion continues. The action is not called again.
//   - Data that no longer exists is not an error. The operator may have crashed after a
//     successful attempt, a user may have cleaned up manually, and a deletion may be
//     requested twice.
//   - Find what to remove by the UID of the Backup and by the outputs of your PreBackup
//     actions (DeleteRequest.BackupOutputs). Names may be reused, in this cluster or another
//     one. The backup may have been made before your action was installed, by another cluster
//     or by Velero: then there is nothing to remove.
//   - Labels, annotations and outputs may have been changed by anyone with write access to the
//     Backup or to its storage. Validate them before they become part of a path, a query or a
//     command.
package v1
