// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package state decides what becomes of one workload that is to be quiesced or given back.
//
// It is pure. What a workload is like is a [Workload], who wants it quiesced is a [Holder],
// and what is remembered about it is a [State], which lives in one annotation of the workload
// itself ([Annotation]). The decisions are [Quiesce], [Release], [Adopt] and [Expire]; each
// says what comes of it, and which one [Patch] makes it so. The state and the change it
// describes are in the same write, so that a crash leaves both or none, and a patch carries
// the version that was looked at, so that a decision about an older object is refused.
//
// The rules, which come from what others got wrong (migtools/mig-controller loses the saved
// number when it is called twice, and wakes what slept before):
//
//   - What was there is saved once, and only by the first holder; again only if somebody sets
//     another number meanwhile. A number that is saved is greater than zero.
//   - What was quiesced before Grapnel came is noted as such, and stays so.
//   - Each action of a run that wants a workload quiesced is a holder of it, with a deadline.
//     The last one that goes gives it back. A holder whose deadline is over does not count.
//   - Given back is only what is still as Grapnel left it: a person who scaled it wins.
//   - A state names the UID of its workload. One with another UID came with a restore, and so
//     did one that somebody else wrote, as managedFields tell: its holders mean nothing here,
//     no deadline wakes it, and only [Adopt] gives it back.
//   - What a deadline gave back keeps a note of that, without the label, for its holders: a
//     run that goes on must not quiesce it again for as long as it may. They remove it. So does
//     what another run gave back when theirs was over.
//   - Each holder is told at its end whether the workload ran since it had it quiesced.
//
// Who else would change a workload back, an autoscaler, an operator or a tool that deploys
// from a repository, is in [ManagerOf].
package state
