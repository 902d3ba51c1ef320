// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package run drives Backups and Restores through what they have in common:
// hooks before and after, clean-up that is owed, outcomes, and work that takes
// time.
//
// A controller describes its kind with a [Kind] and its life with a list of
// phases, some of its own and some from here, and hands both to a [Driver],
// together with the [Environment] that the operator made for all of them:
//
//	driver := &run.Driver[*v1alpha1.Backup]{Environment: env, Kind: run.Backup, ...}
//	driver.Phases = []run.Phase[*v1alpha1.Backup]{
//		driver.Plan(plan), driver.RunPreActions, archive, abandon, driver.RunPostActions,
//		driver.Finish(storePostLog, name),
//	}
//
// Each reconcile makes a [Scope], goes through the phases until one has to wait,
// writes the status once, and then does what the status says ([Scope.Then]).
// What takes time is a step: it runs in the background, with the storage location
// open, and wakes the object ([ExecuteStepWithStore]).
//
// What every kind tells people is told here, too: conditions and messages,
// events, and metrics.
//
// The plan of a run is its HookRuns, created before the first of them may run.
// They are found by deterministic names, so that doing everything twice is
// harmless.
package run
