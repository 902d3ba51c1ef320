// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package asyncoperation follows the operations that actions of plugins started on
// objects, until their outcome is known.
//
// The run of a Backup or Restore creates one AsyncOperation per operation and reads its outcome.
// Until then this controller owns the status. Package internal/operation decides. Each
// reconcile observes the results of calls, decides, writes the status if a write is due, and
// then starts the calls that are due:
//
//	controller.go  one reconcile
//	tracked.go     the unfinished operations
//	call.go        the calls of Progress and Cancel
//	slots.go       the limit of concurrent calls per plugin
//	pluginload.go  the wait for a plugin that is not loaded yet
//	parent.go      the Backup or Restore: as plugins see it, and what its end means
//	status.go      the status, and the rate of its writes
//	finalizer.go   finished operations: finalizer, deletion
//	events.go      events and log
//	metrics.go     metrics
//
// There may be ten thousand operations. Reconcile blocks only on the API server, and at most 20
// of 32 workers may wait for a status write, which leaves workers to poll plugins when the API
// server is slow. Calls run in the background (internal/runner). Each Plugin gets at most eight
// polls at a time, and its Cancels in addition. A plugin that hangs therefore delays only its own
// operations. Most answers change too little to be worth a write. They are kept in memory, and
// an operator that takes over polls again. The rate of all writes together is limited: a change
// of phase waits for its turn, a change of progress is skipped.
package asyncoperation
