// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package operation knows what becomes of asynchronous operations that actions of
// plugins start on objects. It is pure: it calls nothing, and is told what time it is.
//
// An operation goes on by itself, somewhere that only its plugin knows. All that can be
// done is to ask the plugin how far it is (Progress), and to ask it for the end (Cancel):
//
//	New ── first answer ──▶ InProgress ── the plugin says so ──▶ Completed, Failed
//	 └────────────┬─────────────┘
//	              │ somebody wants that, spec.timeout, spec.stallTimeout
//	              ▼
//	          Cancelling ── the plugin confirms it ──▶ Cancelled, Failed, Completed
//	              └──────── it does not, for Confirm ─▶ Failed
//
// That a plugin cannot be asked, or cannot answer now, never ends an operation. What is
// recorded is therefore only what the plugin said, or that time was over.
//
// The controller shows [Machine.Decide] what happened; it changes the status and says
// what to do next and whether the status is due to be written. A Cancel is called only
// when the request for it is written: who finds that request after a crash knows that it
// may have been called. What a Decide remembers beside the status is in [Memory], which
// may be lost at any time.
//
//	machine.go   Decide, and what it is told and tells
//	answer.go    what the answers of a plugin change
//	cancel.go    why an operation is cancelled, and what confirms it
//	end.go       the ends, and what is said of an operation
//	schedule.go  when a plugin is asked
//	due.go       which changes of a status are worth a write
//	summary.go   the numbers of a plugin, in words
//	sum.go       what a Backup or Restore says of all of its operations
package operation
