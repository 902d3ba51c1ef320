// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package run drives Backups and Restores through what they have in common:
// hooks before and after, clean-up that is owed, outcomes, and work that takes
// time.
//
// A controller describes its kind with a [Kind] and its life with a list of
// phases, most of its own and two from here, and hands both to a [Driver]:
//
//	driver := &run.Driver[*v1alpha1.Backup]{Kind: run.Backup, ...}
//	driver.Phases = []run.Phase[*v1alpha1.Backup]{
//		plan, driver.PreActions, archive, abandon, driver.PostActions, finish,
//	}
//
// Each reconcile makes a [Scope], goes through the phases until one has to wait,
// writes the status once, and then does what the status says ([Scope.Then]).
// What takes time is a step: it runs in the background and wakes the object
// ([Step]).
//
// The plan of a run is its HookRuns, created before the first of them may run.
// They are found by deterministic names, so that doing everything twice is
// harmless.
package run
