// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quiesce stops the workloads of namespaces for a backup, and starts them again.
//
// A [Quiescer] has three calls. Each is one idempotent attempt that never waits: it reads the
// cluster, writes what is necessary, and returns whether to call it again.
//
//   - Quiesce scales Deployments, StatefulSets and ReplicaSets to 0, suspends CronJobs and
//     Jobs, and gives DaemonSets a node selector that matches no node. It is done when a call
//     finds nothing to write and, if requested, all pods of the workloads have terminated.
//   - Unquiesce starts again what one run held.
//   - ReleaseExpired starts again what no run may hold any longer, whatever happens to the runs.
//
// The Quiescer keeps no state: the previous values and the holders are in an annotation of each
// workload. If a call is interrupted after any write, the next call completes the work.
//
//	request.go     requests and results
//	cluster.go     all access to the API server
//	conversion.go  conversion of objects to workloads
//	pass.go        one call: tries every workload and collects failures
//	quiesce.go     Quiesce: which workloads are selected
//	refusal.go     what is refused, left out, or waited for
//	rollout.go     whether pods of two templates run
//	pods.go        which pods still run, and why
//	unquiesce.go   Unquiesce and ReleaseExpired: what is found, and what is missing
//	report.go      messages and outputs
//	decide.go      decisions about one workload, outcome.go their outcomes
//	workload.go    a workload, annotation.go its state
//	managedfields.go  who wrote a field, and the managers to restore
//	patch.go       the write of a decision
//	manager.go     what else would start a workload again
//
// The decisions are pure functions. A [Workload] describes the workload, a [Holder] a run that
// wants it quiesced, and a [State] what is stored about it, in one annotation of the workload
// itself ([Annotation]). The decisions are [DecideQuiesce], [DecideRelease], [DecideRestored] and
// [DecideExpired]. Each returns an outcome and the [Patch] that brings it about. One write
// contains the state and the change that it describes, so a crash leaves both or neither. A patch
// carries the version that was read, so the API server rejects a decision about an older object.
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
//
// Retries and deadlines of attempts do NOT belong here (controllers/hookrun), nor does the
// choice of namespaces.
package quiesce
