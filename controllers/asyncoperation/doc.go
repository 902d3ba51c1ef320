// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package asyncoperation follows the operations that actions of plugins started on
// objects, until it is known how they ended.
//
// The run of a Backup or Restore creates an AsyncOperation for each and reads how it ended;
// in between it belongs to this controller. What becomes of it is decided in
// internal/kube/operation. One pass observes what calls came to, decides, writes the status if
// that is due, and then starts the calls that are:
//
//	controller.go  one pass
//	known.go       what is known of the operations that go on
//	call.go        the calls of Progress and Cancel
//	place.go       how many of them a plugin gets at a time
//	load.go        the wait for a plugin that is not started yet
//	parent.go      the Backup or Restore: as plugins see it, and what its end means
//	write.go       the status, and how often it may be written
//	bucket.go      the bucket of tokens behind that
//	frugal.go      the garbage collector, while there are many
//	finish.go      what has ended: finalizer, removal
//	tell.go        events and log
//	metrics.go     metrics
//
// There may be ten thousand operations. A pass blocks on nothing but the API server, and
// only half of the passes may wait for that to take a status: a slow one delays no
// question. Calls run in the background (internal/runner). Each Plugin is asked eight
// questions at a time, so that one that hangs delays only what is its own, and gets its
// Cancels beside them. Most answers change too little to be worth a write. They are kept
// in memory, and an operator that takes over asks again. All writes together are bounded;
// a change of phase waits for its turn, progress is left out.
package asyncoperation
