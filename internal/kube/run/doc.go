// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package run drives Backups, Restores and DeletionRuns through what they have in
// common: hooks before and after the work, owed clean-up, outcomes, and background
// work.
//
// A controller describes its kind with [KindTraits] and the life of a run with a list
// of phases, some of its own and some from this package. It passes both to a [Driver],
// together with the [Dependencies] that all kinds share:
//
//	driver := &run.Driver[*v1alpha1.Backup]{Dependencies: deps, Kind: run.BackupKind, ...}
//	driver.ReconcileFuncs = []run.ReconcileFunc[*v1alpha1.Backup]{
//		driver.NewPlanFunc(plan), driver.RunPreActions, archive, abandon, driver.RunPostActions,
//		driver.NewFinalizeFunc(storePostLog, recordFiles),
//	}
//
// Each reconcile creates a [Scope], calls the phases until one has to wait, writes the
// status once, and then calls the functions that depend on the write
// ([Scope.AfterStatusUpdate]). Long work is a step: it runs in the background, with the
// storage location open, and enqueues the object when it ends ([ExecuteStepWithStore]).
//
// This package also reports what all kinds have in common: conditions and messages,
// events, and metrics.
//
// The plan of a run is its HookRuns, created before the first of them may run. They are
// found by deterministic names, so that repeating a reconcile is harmless.
package run
