// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hookrun executes HookRuns.
//
// A HookRun waits (desiredState Wait) until its parent sets Run. Each attempt is
// recorded in the status, under optimistic lock, before the action is called. After
// a crash the next operator finds the open attempt, and spec.onInterruption decides
// whether the action is called again. The call runs in the background (internal/runner)
// with the deadline of the attempt, and the controller enqueues the HookRun to record the
// answer. If the attempt continues without an operator (executor.Resumable), the next operator
// resumes it. No write precedes that, so the HookRun is read past the cache. The resources of
// an attempt are deleted only after its answer is recorded, with status.removing set.
// The field is cleared when nothing is left; until then the finalizer stays.
//
//	controller.go        one reconcile: observe, decide, write status once, then act
//	decide.go            the state machine, as a pure function
//	intervention.go      retries and skips that users request
//	call.go              the call of the action
//	parent.go            the Backup, Restore or DeletionRun: what an action receives of it
//	pluginload.go        the wait for a plugin that is not loaded yet
//	leftovers.go         leftovers of finished HookRuns, and the release of orphans
//	orphan.go            owed clean-up whose parent no longer exists
//	unneededhookruns.go  HookRuns that would wait forever
//	metrics.go           metrics
//
// Owed clean-up is retried with back-off until it succeeds, regardless of
// spec.retries.
package hookrun
