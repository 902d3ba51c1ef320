// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package actions is a plugin for Velero, written as its authors would write one: with
// Velero's framework and nothing of Grapnel. Each program in the directories beside it
// builds the plugin with one release of Velero, so it uses only what all releases have.
//
//	names.go       what is registered, and which objects each action selects
//	behaviour.go   what the annotations of an object make the actions do
//	backup.go      BackupItemAction, versions 1 and 2
//	restore.go     RestoreItemAction, versions 1 and 2
//	delete.go      DeleteItemAction
//	operations.go  operations that actions start
//	store.go       ObjectStore, in a directory
//	snapshotter.go VolumeSnapshotter, a kind that Grapnel does not have
//
// The tests also call the same actions directly, to compare what arrives through
// Grapnel with what they return.
package actions
