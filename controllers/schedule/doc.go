// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schedule creates the Backups of Schedules, and has those destroyed that are not to
// be kept.
//
// What is due is decided in internal/schedule, which is pure. One pass looks at the Backups
// of a Schedule, decides, cancels Backups that are replaced, creates the one that is due,
// writes the status once, and then creates DeletionRuns for what there is too much of:
//
//	controller.go  one pass
//	watch.go       what wakes a Schedule
//	observe.go     its Backups, and who destroys them
//	backup.go      cancel and create
//	status.go      what is recorded
//	limits.go      DeletionRuns
//	tell.go        events and log
//	metrics.go     metrics
//
// A pass may end anywhere, and the next one does the rest. A Backup is named after its
// time, so that one which was created and not recorded is found again; nothing is destroyed
// before it is recorded that it was there. Backups are not owned by their Schedule: they
// outlive it, and one that is created again under its name takes them over.
//
// Nothing is asked in intervals. A Schedule is looked at when something of it changes and at
// its next time, at least every hour: a timer does not notice that a clock was put forward.
package schedule
