// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package operation is the state machine of asynchronous operations that actions of
// plugins start on objects. It is pure: it calls nothing, and the caller passes the time.
//
// An operation runs by itself, in a place that only its plugin knows. The operator can only
// ask the plugin for its progress (Progress) and ask it to end (Cancel):
//
//	New ── first answer ──▶ InProgress ── the plugin says so ──▶ Completed, Failed
//	 └────────────┬─────────────┘
//	              │ a user requests it, spec.timeout, spec.stallTimeout
//	              ▼
//	          Cancelling ── the plugin confirms it ──▶ Cancelled, Failed, Completed
//	              └──── not within ConfirmTimeout ───▶ Failed
//
// A plugin that cannot be reached, or cannot answer now, never ends an operation. The status
// therefore records only what the plugin reported, or that a timeout expired.
//
// The controller passes its observations to [Machine.Decide], which changes the status and returns
// what to do next and whether to write the status. Cancel is called only if an operator that
// continues after a crash knows that it may have been called: a request of a user is in the
// spec, and the decision of a timeout is written to the status first. What Decide remembers besides
// the status is in [Memory], which may be lost at any time.
//
//	machine.go         Decide, its input and its result
//	answer.go          what the answers of a plugin change
//	cancellation.go    why an operation is canceled, and what confirms the end
//	outcome.go         the outcomes, and the messages of an operation
//	schedule.go        when a plugin is polled
//	writeurgency.go    which changes of a status are worth a write
//	summary.go         the progress of one operation, in words
//	fraction.go        the progress of one operation, as a fraction
//	counts.go          the progress of all operations of a Backup or Restore
//	cachetransform.go  less memory for operations in the cache
package operation
