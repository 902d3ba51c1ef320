// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is the interface of an AsyncRestoreItemAction: an action that starts
// operations on objects of a restore: work that continues after the call returns.
//
// Implement [AsyncRestoreItemAction] and register it with
// serve.Server.RegisterAsyncRestoreItemActionV1. An action that starts no operation is a
// RestoreItemAction, package restoreitemaction/v1 or v2. The kind is specific to Grapnel,
// and Velero does not see it. An action that has to run under both is version 2 of a
// RestoreItemAction.
//
// # What the operator promises and expects
//
//   - Start runs before the object is created. The creation may also fail or be skipped.
//     Work that needs the object has to wait for it, and to end if the object never
//     appears.
//   - Start is short. It begins the work and returns without waiting for it.
//   - The ID outlives the process. The operator stores it and passes it to any later
//     process of the plugin. If the work survives the process, the ID must be enough to
//     find it again: use the name of the object that does the work (a download, a Job). If
//     the work ends with the process, the next process returns item.ErrUnknownOperation.
//   - Start may be called twice for one object of one Restore, when the operator restarted
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
