// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package item has the requests and responses of actions on single objects, for all kinds
// and versions.
//
//	Selector          which objects concern an action
//	Ref               the name of an object
//	BackupRequest     one object on its way into an archive
//	RestoreRequest    one object on its way into a cluster
//	DeleteRequest     one object of a backup that is being deleted
//	Backup, Restore   the run that an object belongs to
//	Progress          how far an operation is
//	ErrUnknownOperation
//	                  the error for an operation that does not exist
//
// On the wire these are the messages of Velero's item actions, and an action can serve both
// systems. Only those of asynchronous item actions are Grapnel's own.
package item
