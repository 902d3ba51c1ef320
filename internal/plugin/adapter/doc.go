// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package adapter lists the kinds of actions that plugins can provide, and translates
// between the types of the operator and the messages of every version of every kind.
//
// The operator uses only the newest interface. Each kind and version has one file here,
// which converts that interface to the calls and messages of the version; [SupportedKinds]
// lists them, newest first. A new version is a file and a line there:
// docs/plugins/VERSIONING.md.
//
//	item.go          the interfaces of the kinds for objects
//	operations.go    the operations that actions on objects start
//	deleteaction.go  the interface of the kind that runs once when a backup is deleted
//	<kind>_<v>.go    one version of one kind
//	listing.go       lists the actions of a process: with Grapnel's lister, else Velero's
//	registration.go  the rules for what a process may list
//	velero.go        Velero's names of kinds, and the first calls of its plugins
//
// It does not handle processes, deadlines or logs: package process makes the connection,
// package executor/process makes the calls.
package adapter
