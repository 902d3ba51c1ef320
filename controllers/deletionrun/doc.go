// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deletionrun destroys stored backups, as requested by DeletionRuns.
//
// Reconcile calls the parts of the life of a DeletionRun, with package lifecycle:
//
//	reconcilePlan            which backup is meant, may it be destroyed, and is it in use?
//	reconcileDeadline        the outcome, if the deadline of the run has passed
//	RunDeleteActions         DeleteActions, as HookRuns, one after the other
//	reconcileStoredData      DeleteItemActions for the archived objects, then the stored files
//	reconcileObjectDeletion  the Backup, and Restores of it
//	reconcileOutcome         the outcome, with what was left behind
//
// Only its deadline stops a deletion that has started: what an action could not remove is
// recorded, and the next action runs. What cannot be reached, such as a store that is down, is
// retried until it can, or until a user abandons the data with an annotation.
//
//	controller.go     Reconcile, and the steps with their timeouts
//	backup.go         the Backup that is meant, or the backup in a location without an object
//	siblings.go       which of several DeletionRuns does the work
//	prerequisites.go  what has to end first: the Backup, Restores; the location
//	survey.go         the survey of the store, and the plan
//	storeddata.go     the steps that take time
//	objects.go        what is removed from the cluster
//	watches.go        which objects enqueue DeletionRuns
//
// DeletionRuns are created by users and by the packages retention and schedule. Package
// deletion does the work on files and archived objects.
package deletionrun
