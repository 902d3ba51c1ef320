// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package state decides what happens to one workload that is to be quiesced or unquiesced.
//
// It is pure. A [Workload] describes the workload, a [Holder] a run that wants it quiesced, and
// a [State] what is stored about it, in one annotation of the workload itself ([Annotation]).
// The decisions are [DecideQuiesce], [DecideRelease], [DecideRestored] and [DecideExpired]. Each
// returns an outcome and the [Patch] that brings it about. One write contains the state and the
// change that it describes, so a crash leaves both or neither. A patch carries the version that
// was read, so the API server rejects a decision about an older object.
//
// The rules avoid mistakes of other tools (migtools/mig-controller loses the saved number when
// it is called twice, and starts what was stopped before):
//
//   - Only the first holder saves the previous value. It is saved again only if a user sets
//     another number in the meantime. A saved number is greater than zero.
//   - A workload that was quiesced before is recorded as such, and stays quiesced.
//   - Each action of a run that wants a workload quiesced is a holder of it, with a deadline.
//     When the last one releases it, the workload is unquiesced. An expired holder does not
//     count.
//   - A workload is unquiesced only if it is still as Grapnel left it: the change of a user who
//     scaled it has precedence.
//   - A state names the UID of its workload. A state with another UID came with a restore, and
//     so did one that another writer wrote, according to managedFields. Its holders do not count
//     here, no deadline starts the workload, and only [DecideRestored] unquiesces it.
//   - A workload that was unquiesced by a deadline keeps a note of that, without the label, for
//     its holders: a run that continues must not quiesce it again for the full duration. The
//     holders remove the note. The same applies to a workload that another run unquiesced after
//     their holds had expired.
//   - Each holder learns at its end whether the workload ran after the holder quiesced it.
//
// [ManagerOf] returns what else would start a workload again: an autoscaler, an operator, or a
// tool that deploys from a repository.
package state
