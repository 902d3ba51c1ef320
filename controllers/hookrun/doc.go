// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hookrun executes HookRuns.
//
// A HookRun waits (desiredState Wait) until its Backup says Run. Each attempt is
// recorded in status, under optimistic lock, before the action is called: after
// a crash the next operator sees the open attempt, and spec.onInterruption says
// what becomes of it. The call itself runs in the background (internal/runner)
// with the deadline of the attempt; Reconcile is woken to record its answer. An attempt
// that goes on without an operator (executor.Resumer) is followed by the next one: no
// write comes before that, so the run is read past the cache. What ran for an action is
// removed only when its answer is recorded, with status.removing set: that is taken back when
// nothing is left, and until then nobody lets go of the run.
//
//	controller.go  one pass: observe, decide, write status once, then act
//	decide.go      the state machine, as a pure function
//	call.go        the call of the action
//	remove.go      what is left of a run that has ended, or that is let go of
//
// Owed clean-up is tried until it ends well, with back-off, whatever its
// retries say.
package hookrun
