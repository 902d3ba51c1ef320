// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package retention determines how long the stored data of Backups is kept: it is destroyed when
// the Backup expires (spec.ttl), or with a Backup whose spec.deletionPolicy is Delete.
//
// It destroys nothing itself, but creates DeletionRuns, and holds a Backup that is deleted
// with its data until the data is deleted. No state records whether a DeletionRun exists: its
// name is derived from the Backup and the cause.
//
//	controller.go   Reconcile and map functions
//	expiration.go   the time to live, and what protects an expired Backup
//	massexpiry.go   guards against expiry by a wrong clock
//	finalizer.go    Backups that are deleted
package retention
