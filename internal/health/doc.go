// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health answers the probes of the kubelet.
//
// [Caches] reports when an operator can work: when its caches are filled. A standby operator fills
// them, too, and can therefore work at once when it takes over.
//
// A [Watchdog] reports when a restart may help: a reconcile hangs for minutes, although the API
// server answers. A reconcile blocks only on the API server. One that does not end is therefore in a
// deadlock, and its object, or all objects of its controller, make no progress. Threads that the
// kernel blocks on a disk that does not answer are no reason for a restart: a process with such
// threads cannot exit.
package health
