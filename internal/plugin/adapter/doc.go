// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package adapter knows what plugins can provide and translates between the types
// of the operator and the messages of every version of every kind.
//
// Inside the operator there is only the newest interface. Each kind and version
// has one file here, which turns that interface into the calls and messages of
// the version; [Kinds] lists them, newest first. A new version is a file and a
// line there: docs/plugins/VERSIONING.md.
//
//	item.go          the interfaces of the kinds that are about objects
//	operations.go    what actions on objects start, and what they say of it
//	delete.go        the interface of the kind that runs once when a backup is deleted
//	<kind>_<v>.go    one version of one kind
//	list.go          what does a process provide: Grapnel's lister, else Velero's
//	registration.go  the rules for what a process may list
//	velero.go        Velero's words for kinds, and the first calls of its plugins
//
// It is NOT concerned with processes, deadlines or logs: package process makes
// the connection, package executor/process makes the calls.
package adapter
