// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schedule creates the Backups of Schedules, and destroys those in excess of their
// limits.
//
// The pure package internal/schedule decides what is due. A reconcile reads the Backups of a
// Schedule, decides, cancels replaced Backups, creates the one that is due, writes the status
// once, and then creates DeletionRuns for the Backups in excess:
//
//	controller.go   Reconcile
//	watches.go      what enqueues a Schedule
//	observation.go  its Backups, and the DeletionRuns
//	backup.go       cancel and create
//	status.go       status
//	limits.go       DeletionRuns
//	events.go       events and log
//	metrics.go      metrics
//
// The annotation grapnel.dev/run-requested-at requests a Backup now. Each value is handled once: the
// Backup is created or the request is refused, and the value is recorded in the status.
//
// A reconcile may be interrupted anywhere, and the next one does the rest. A Backup is named after
// its time, so that a Backup that was created and not recorded is found again. Nothing is destroyed
// before its existence is recorded. Backups are not owned by their Schedule: they outlive it, and
// a Schedule that is recreated under the same name adopts them.
//
// There is no polling. A Schedule is reconciled when it or its Backups change and at its next
// time, at least every hour: a timer does not notice that a clock was set forward.
package schedule
