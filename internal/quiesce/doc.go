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
// This package keeps no state: the previous values and the holders are in an annotation of each
// workload. The decisions are in package state, which is pure; this package lists, calls it, and
// patches. If a call is interrupted after any write, the next call completes the work.
//
//	request.go     requests and results
//	cluster.go     all access to the API server
//	conversion.go  conversion of objects for package state
//	pass.go        one call: tries every workload and collects failures
//	quiesce.go     Quiesce: which workloads are selected
//	refusal.go     what is refused, left out, or waited for
//	rollout.go     whether pods of two templates run
//	pods.go        which pods still run, and why
//	unquiesce.go   Unquiesce and ReleaseExpired: what is found, and what is missing
//	report.go      messages and outputs
//
// Retries and deadlines of attempts do NOT belong here (controllers/hookrun), nor does the
// choice of namespaces.
package quiesce
