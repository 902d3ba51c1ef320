// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is the interface of an AsyncRestoreItemAction: an action that starts
// operations on objects of a restore, work that goes on after the call.
//
// Implement [AsyncRestoreItemAction] and register it with
// serve.Server.RegisterAsyncRestoreItemActionV1. An action that starts nothing is a
// RestoreItemAction, package restoreitemaction/v1 or v2. The kind is Grapnel's own and
// Velero is not told of it; what has to run under both is version 2 of a
// RestoreItemAction.
//
// # What the operator promises and expects
//
//   - Start runs before the object is created, which may also fail or be left out. Work
//     that needs the object has to wait for it, and to end if it does not come.
//   - Start is short. It begins the work and returns; do not wait in it.
//   - The ID outlives the process. The operator keeps it, and asks any later process of the
//     plugin about it. If the work survives the process, the ID must be enough to find it
//     again: use the name of what does the work (a download, a job). If the work ends with
//     the process, the next process answers item.ErrUnknownOperation.
//   - Start may be called twice for one object of one Restore, when the operator ended
//     between the two. Make the name of the work from the UIDs of both, and take over or
//     begin again what exists: if the first answer was lost nobody knows its ID. Return
//     another ID each time all the same: the operator cancels the older operation, as far
//     as it knows it, and that must not end the newer. If ctx ends before Start returns,
//     stop the work.
//   - Cancel is called until it is accepted, with growing pauses, for some minutes. The
//     operation may have ended meanwhile.
//   - What has ended is asked about until the operator has written that down, so keep the
//     outcome for a while.
package v1
