// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package sdk

// Version is the version of this SDK. A plugin process reports it to the
// operator, which shows it in the status of the Plugin.
const Version = "v0.1.0"

// Kind is a kind of action that a plugin can provide. Its values are part of the
// wire protocol and never change.
type Kind string

// The kinds of actions. Each has a package per version of its interface, a gRPC
// service per version and a registration method per version in package serve.
const (
	// KindPreBackupAction runs once per Backup, before its items are collected.
	KindPreBackupAction Kind = "PreBackupAction"
	// KindPostBackupAction runs once per Backup, after its outcome is recorded.
	KindPostBackupAction Kind = "PostBackupAction"
	// KindPreRestoreAction runs once per Restore, before its items are restored.
	KindPreRestoreAction Kind = "PreRestoreAction"
	// KindPostRestoreAction runs once per Restore, after its outcome is recorded.
	KindPostRestoreAction Kind = "PostRestoreAction"
	// KindBackupItemAction sees single objects on their way into an archive.
	KindBackupItemAction Kind = "BackupItemAction"
	// KindRestoreItemAction sees single objects on their way into a cluster.
	KindRestoreItemAction Kind = "RestoreItemAction"
	// KindAsyncBackupItemAction starts operations on single objects on their way into an
	// archive.
	KindAsyncBackupItemAction Kind = "AsyncBackupItemAction"
	// KindAsyncRestoreItemAction starts operations on single objects on their way into a
	// cluster.
	KindAsyncRestoreItemAction Kind = "AsyncRestoreItemAction"
	// KindDeleteAction runs once when a backup is deleted, before any of its data is
	// removed.
	KindDeleteAction Kind = "DeleteAction"
	// KindDeleteItemAction sees the objects of a backup that is being deleted.
	KindDeleteItemAction Kind = "DeleteItemAction"
	// KindObjectStore keeps backups.
	KindObjectStore Kind = "ObjectStore"
)

// Versions of interfaces. They are compared as whole strings: "v2" is a different
// interface, not a newer form of the same one.
const (
	V1 = "v1"
	V2 = "v2"
)
