// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package client calls the actions of plugins: from the interface that an engine or a controller
// knows to one gRPC call, and back to an answer that was validated.
//
// # Calls
//
// A [Caller] makes calls to one action. It resolves the process that currently provides the action,
// because plugins are replaced while the operator runs, makes the call with its deadline, and
// describes failures for users, without secrets.
//
// # Kinds and versions
//
// The operator uses only the newest interface of each kind. Each kind and version has one file here,
// <kind>_<version>.go, which converts that interface to the calls and messages of the version;
// [SupportedKinds] lists them, newest first. A new version is a file and a line there:
// docs/plugins/VERSIONING.md.
//
//	item.go          the interfaces of the kinds for objects
//	operations.go    the operations that actions on objects start
//	deleteaction.go  the interface of the kind that runs once when a backup is deleted
//	listing.go       lists the actions of a process: with Grapnel's lister, else Velero's
//	registration.go  the rules for what a process may list
//	velero.go        Velero's names of kinds, and the first calls of its plugins
//
// # Item actions
//
// An [ItemAction] is one item action in one run, whatever it does with objects: it requests the
// selector once, makes one call for one object with a deadline, and ends an operation, even of a run
// that has ended, or one whose answer was rejected. [NewBackupItemAction] and [NewRestoreItemAction]
// are what the engines use.
//
// Answers of a plugin are hostile input: everything is validated here before an engine uses it. An
// action that no longer answers is given up for the rest of the run.
//
//	filter.go           which objects an action handles
//	circuitbreaker.go   stops calling an action that no longer answers
//	object.go, refs.go  check that a returned object is still that object, and that the objects it
//	                    names can exist
//	annotations.go      removes the annotations that an action sets for Grapnel
//	labels.go           parses the labels for the Backup in them
//	cancellation.go     cancels the operation of a rejected answer
//
// # Operations, delete actions, stores
//
// An [OperationClient] requests the progress of an operation, and cancels it; package
// internal/operation decides what happens to the operation. [RequestSelector] requests from a
// DeleteAction which Backups it applies to. A [Store] is an object store that a plugin provides.
//
// Processes, deadlines of runs and logs do NOT belong here: see packages host and
// catalog.
package client
