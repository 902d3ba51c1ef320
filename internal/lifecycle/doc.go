// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle is the library of the controllers of runs: Backups, Restores and DeletionRuns.
// It has what they have in common: hooks before and after the work, owed clean-up, slots,
// deadlines, operations of plugins, outcomes, and background work.
//
// A controller describes its kind with [KindTraits] to a [Driver], together with the
// [Dependencies] that all kinds share, and calls the Driver in its Reconcile:
//
//	b, err := r.driver.GetRun(ctx, req.NamespacedName)
//	...
//	s, err := r.driver.Begin(ctx, b)
//	...
//	err = s.ReconcileUntilWaiting(ctx, r.reconcilePlan, r.driver.RunPreActions, r.reconcileArchive, ...)
//	return r.driver.WriteStatus(ctx, s, err)
//
// Each reconcile has a [Scope]. It calls the parts of the kind until one has to wait, writes the
// status once, and then calls the functions that depend on the write
// ([Scope.AfterStatusUpdate]). Long work is a step: it runs in the background, with the
// storage location open, and enqueues the object when it ends ([ExecuteStepWithStore]).
//
// This package also reports what all kinds have in common: conditions and messages,
// events, and metrics.
//
// The plan of a run is its HookRuns, created before the first of them may run. They are
// found by deterministic names, so that repeating a reconcile is harmless.
package lifecycle
