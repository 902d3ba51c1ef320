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
// Names look like "example.io/freeze": a DNS name you own, one slash, and a name;
// or just a name without a slash. A name is unique per kind and version, and may
// be used for several kinds (a pair of pre and post action, or two pairs).
//
// Serve speaks go-plugin's protocol with the operator (the same handshake as
// Velero's), lists the registered actions and answers the calls:
//
//	register      the registration methods
//	server        Install and Serve
//	listen        Listen, in the place of Serve: at an address, for plugins that run elsewhere;
//	              listenoptions, listentls, listenlog and listenfollower belong to it
//	registry      what is registered; creates each action once, when first needed
//	call          what is the same for all calls: log, parameters, errors, panics
//	hook, keyed   hooks; only one call per idempotency key runs at a time
//	delete        what runs once when a backup is deleted; otherwise like hooks
//	metadata      what the kinds have in common that are not hooks
//	velero        the services that Velero knows, and its lister
//	backupitem, restoreitem, deleteitem
//	              actions on objects
//	asyncbackupitem, asyncrestoreitem
//	              actions that start operations on objects, in Grapnel's own messages
//	objectstore, objectstream
//	              object stores
//
// Actions on objects and object stores are served in Velero's messages under Velero's
// names, so that a plugin works under a Velero server, too. That one is told only of
// what it knows. What its messages have no fields for (which call and run it is, and
// the parameters) comes as gRPC metadata, see package proto. The same goes for
// asynchronous actions on objects, of which Velero is not told, as of hooks and of
// DeleteActions.
//
// # Statuses
//
// An error of an action is the status Unknown with its text, and a panic Aborted with
// where it was as a detail. The code of a status that an action got from elsewhere is
// not kept. An end of the ctx is Canceled or DeadlineExceeded, whatever the action says
// then. InvalidArgument is a request that cannot be read, Unimplemented an action that
// the plugin does not provide, NotFound an object that an object store does not have
// or an operation that an action does not know (item.ErrUnknownOperation),
// FailedPrecondition a store that was not initialised, and DataLoss an upload that a store
// took for complete before its end: a part may be visible under the key of the object.
//
// It is NOT for running actions inside a test; see package plugintest.
package serve
