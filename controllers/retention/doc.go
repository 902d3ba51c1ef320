// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package retention says how long the stored data of Backups stays: it is destroyed when
// its time is over (spec.ttl), or with a Backup whose spec.deletionPolicy is Delete.
//
// It destroys nothing itself, but creates DeletionRuns, and keeps a Backup that is deleted
// with its data until that is gone. Whether there is one already is seen in the world: its
// name follows from the Backup and the cause.
//
//	controller.go   what is looked at, and when
//	expire.go       the time to live, and what protects a Backup whose time is over
//	finalize.go     Backups that are deleted
package retention
