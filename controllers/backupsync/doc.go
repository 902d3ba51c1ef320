// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backupsync imports the backups of a location as Backups, including backups that
// Velero or another cluster made. It also marks Backups whose stored data is missing.
//
// A sync of a location lists the location and compares the list with the Backups in the cache,
// by location and stored name (Backup.StoredName). Then it writes the differences, one backup
// after the other. It runs in the background. Reconcile starts it when the location becomes
// available or changes, when an import is requested, and at an interval counted from the end of
// the last sync. Reconcile runs again to record its result.
//
// A sync can be interrupted anywhere and restarted. An object is created first and gets its
// status afterwards. If its status is missing, a later sync completes it. A Backup that a user
// creates with spec.importedFrom is treated the same way. All writes share one rate limit.
//
// When nothing changed, a sync is one list of the location, and reads of the cache and of the
// ConfigMap with the tombstones (package tombstone). What is known of stored backups is cached with
// the version from the list, so that a manifest is read once. A manifest that cannot be imported
// is read again when it changes, and from time to time.
//
// A sync does not touch a name with an open DeletionRun or of a running Backup, backups that
// people removed here, and unfinished backups. It never deletes stored data. It deletes only
// Backups that this package imported and that make way for newer ones. When a location is
// deleted, its Backups stay.
//
//	controller.go  when to sync
//	result.go      recording the result of a sync, and map functions
//	locations.go   the state of locations that is kept between reconciles
//	sync.go        one sync
//	snapshot.go    what a sync knows of the cluster
//	budget.go      which backups of others get a Backup, if there are too many
//	cache.go       what is known of stored backups
//	manifest.go    reading their manifests
//	import.go      creating and completing objects
//	tombstones.go  recording Backups, so that removed ones stay removed
//	prune.go       finding Backups whose data is missing
//	status.go      marking Backups
//	report.go      the condition Synced
//	metrics.go     metrics
package backupsync
