// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serve is the main function of a plugin: register the actions, call
// Serve.
//
//	func main() {
//		serve.New().
//			RegisterPreBackupActionV1("example.io/freeze", newFreeze).
//			RegisterPostBackupActionV1("example.io/freeze", newThaw).
//			Serve()
//	}
//
// Names look like "example.io/freeze": a DNS name that you own, one slash, and a name; or
// just a name without a slash. A name is unique per kind and version, and may be used for
// several kinds (a pair of pre and post action, or two pairs).
//
// Serve speaks go-plugin's protocol with the operator (the same handshake as
// Velero's), lists the registered actions and answers the calls:
//
//	registration  the registration methods
//	server        Install and Serve
//	listener      Listen, instead of Serve: at an address, for plugins that run elsewhere;
//	              listenoptions, listentls, listenlog and linequeue belong to it
//	registry      what is registered; creates each action once, on first use
//	call, panic   the common part of all calls: log, parameters, errors, panics
//	connection    what ends with a connection
//	hook, services, keyedmutex
//	              hooks, and Grapnel's lister; only one call per idempotency key runs at a time
//	deleteaction  actions that run once when a backup is deleted; otherwise like hooks
//	metadata      the common part of all kinds except hooks
//	velero        the services that Velero knows, and its lister
//	backupitem, restoreitem, deleteitem
//	              actions on objects
//	asyncbackupitem, asyncrestoreitem
//	              actions that start operations on objects, in Grapnel's own messages
//	objectstore, objectstream
//	              object stores
//
// Actions on objects and object stores are served with Velero's messages under Velero's
// names, and also work with a Velero server. A Velero server sees only the kinds that it
// knows. Attributes without fields in its messages (the call, the run and the parameters)
// are sent as gRPC metadata, see package proto. This also applies to asynchronous actions
// on objects. Velero does not see them, nor hooks and DeleteActions.
//
// # Statuses
//
// An error of an action is returned as status Unknown with its text, and a panic as Aborted
// with its stack as a detail. The code of a status that an action got from another service
// is dropped. The end of the ctx is returned as Canceled or DeadlineExceeded, regardless of
// the error of the action. The other codes are InvalidArgument for a request that cannot be
// read, Unimplemented for an action that the plugin does not provide, NotFound for an
// object that an object store does not have or an operation that an action does not know
// (item.ErrUnknownOperation), FailedPrecondition for a store that was not initialized, and
// DataLoss for an upload that a store took as complete before its end: a part may be
// visible under the key of the object.
//
// To run actions inside a test, use package plugintest.
package serve
