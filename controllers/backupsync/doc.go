// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backupsync shows the backups that a location has as Backups, also those that
// Velero or another cluster made, and marks Backups whose stored data is gone.
//
// One look at a location lists it, compares that with the Backups of the cache by location
// and name there (Backup.StoredName), and then does what is missing, one backup after the
// other. It runs in the background; Reconcile starts it, when the location becomes
// available or changes, when somebody asks for an import, and at an interval counted from
// the end of the last look, and is woken to record what came of it.
//
// A look can be interrupted anywhere and begins anew: an object is created first and gets
// its status afterwards, and one that lacks its status is completed. A Backup that a person
// creates with spec.importedFrom is no different. All writes take a turn of one rate limit.
//
// When nothing changed, a look is one list of the location, and reads of the cache and of
// the ConfigMap with what was seen before (package seen). What is known of stored
// backups is remembered with the version that the list tells, so that a manifest is read
// once; one that can not be imported is read again when it changed, and now and then.
//
// What is not touched: a name with an open DeletionRun, or of a Backup that is being made;
// what people removed; a backup that has not ended. No stored data is ever deleted here, and
// no Backup but those that this package imported and that make way for newer ones: also when
// a location is deleted, its Backups stay.
//
//	controller.go  when to look, and what is recorded
//	place.go       what is remembered between passes
//	look.go        one look; view.go, what it knows of the cluster
//	budget.go      which backups of others have a Backup, if there are too many
//	memory.go      what is known of stored backups
//	read.go        reading their manifests
//	bring.go       creating and completing objects
//	seen.go        what is noted of Backups, so that those that are removed stay so
//	gone.go        finding those whose data is gone; mark.go, marking them
//	report.go      the condition Synced
package backupsync
