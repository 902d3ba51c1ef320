// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package liveness tells the kubelet when a restart may help: a reconcile hangs for minutes,
// although the API server answers.
//
// A reconcile never blocks on more than the API server, so one that does not end has met a
// deadlock, and its object, or all objects of its controller, get no further. Threads that the
// kernel holds on a disk that does not answer are no reason for a restart: a process with
// such threads cannot end.
package liveness
