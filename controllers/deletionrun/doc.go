// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deletionrun destroys stored backups, as DeletionRuns ask for it.
//
// The life of a DeletionRun is a list of phases, driven by package run:
//
//	plan         which backup is meant, may it be destroyed, and is nobody using it?
//	RunDeleteActions   DeleteActions, as HookRuns, one after the other
//	destroy      DeleteItemActions for the archived objects, then the stored files
//	remove       the Backup, and Restores of it
//	finish       what was left behind
//
// Nothing stops a deletion that has begun: what an action could not remove is recorded,
// and the next one runs. What can not be reached, such as a store that is down, is tried
// again until it can, or until a person gives the data up with an annotation.
//
//	find.go      the Backup that is meant, or the backup in a location without an object
//	claim.go     which of several DeletionRuns does the work
//	wait.go      what has to end first: the Backup, Restores; the location
//	begin.go     the look into the store, and the plan
//	destroy.go   the steps that take time
//	objects.go   what is removed from the cluster
//	watch.go     whose news matters
//
// Who creates DeletionRuns is the business of people and of the packages retention and
// schedule; the work on files and archived objects is done by package deletion.
package deletionrun
