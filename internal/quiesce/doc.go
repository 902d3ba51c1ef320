// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quiesce stops the workloads of namespaces for a backup, and starts them again.
//
// A [Quiescer] has three calls, each of them one idempotent attempt that never waits: it looks
// at the cluster, writes what is to be written, and says whether it wants to be called again.
//
//   - Quiesce scales Deployments, StatefulSets and ReplicaSets to 0, suspends CronJobs and
//     Jobs, and parks DaemonSets on no node. It is done when a call found nothing to write
//     and, if that is wanted, no pod of them is left.
//   - Unquiesce gives back what one run held.
//   - Overdue gives back what nobody may hold any longer, whatever becomes of the runs.
//
// Nothing is remembered here: what was there, and who holds it, is in an annotation of each
// workload. The decisions are in package state, which is pure; this package lists, asks it,
// and patches. A call that was interrupted after any write is made good by the next one.
//
//	request.go    what is asked and answered
//	cluster.go    all access to the API server
//	convert.go    objects as package state sees them
//	pass.go       one call: every workload is tried, failures are collected
//	quiesce.go    Quiesce: what is chosen
//	obstacle.go   what is refused, left out, or waited for
//	rollout.go    whether pods of two templates run
//	pods.go       which pods are left, and why
//	unquiesce.go  Unquiesce and Overdue: what is found, and what is missing
//	report.go     what people are told
//
// It is NOT the place for retries and deadlines of attempts (controllers/hookrun), nor for
// the choice of namespaces.
package quiesce
