// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package liveness reports to the kubelet when a restart may help: a reconcile hangs for minutes,
// although the API server answers.
//
// A reconcile blocks only on the API server. One that does not end is therefore in a
// deadlock, and its object, or all objects of its controller, make no progress. Threads that the
// kernel blocks on a disk that does not answer are no reason for a restart: a process with
// such threads cannot exit.
package liveness
