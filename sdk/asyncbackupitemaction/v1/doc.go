// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is the interface of an AsyncBackupItemAction: an action that starts operations
// on objects of a backup: work that continues after the call returns.
//
// Implement [AsyncBackupItemAction] and register it with
// serve.Server.RegisterAsyncBackupItemActionV1. An action that starts no operation is a
// BackupItemAction, package backupitemaction/v1. The kind is specific to Grapnel, and
// Velero does not see it. An action that has to run under both is version 2 of a
// BackupItemAction.
//
// # What the operator promises and expects
//
//   - Start is short. It begins the work and returns without waiting for it.
//   - The ID outlives the process. The operator stores it and passes it to any later
//     process of the plugin. If the work survives the process, the ID must be enough to
//     find it again: use the name of the object that does the work (a VolumeSnapshot, a
//     Job). If the work ends with the process, the next process returns
//     item.ErrUnknownOperation.
//   - Start may be called twice for one object of one Backup, when the operator restarted
//     between the two calls. Derive the name of the work from both UIDs, and take over or
//     restart work of that name: if the first response was lost, its ID is unknown. Return
//     a different ID each time nevertheless: the operator cancels the older operation if it
//     knows its ID, and that must not end the newer one. If ctx ends before Start returns,
//     stop the work.
//   - Cancel is retried with back-off for some minutes until it succeeds. The operation may
//     have ended in the meantime.
//   - Progress is called for an ended operation until the operator has recorded the
//     outcome, so keep the outcome for a while.
package v1
