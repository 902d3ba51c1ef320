// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package catalog manages the loaded plugins and the actions that they provide. Controllers
// use it.
//
//	Load      start or verify a plugin, or replace it if its binary or its
//	          specification changed
//	Executor  the executor of one action of a loaded plugin
//	BackupItemAction, RestoreItemAction, DeleteItemAction, DeleteAction, ObjectStore
//	          the resolver of an action of these kinds, for package client
//	DeclaredActions  the actions of a plugin without a process: Jobs, commands in Pods, webhooks
//	Unload    remove a plugin and stop its process once its open calls have ended
//	Close     the same for all of them
//
// Plugins are identified by the names of their Plugin objects, actions by kind and
// registered name. No two plugins may provide the same action: the older Plugin provides
// it. A plugin that cannot be loaded affects no other. If a newer binary or specification
// of a loaded plugin cannot be started, the running process stays in service: a run may
// depend on its clean-up.
//
// A plugin has one process for all of its actions, and one more for every location of its
// ObjectStores.
//
// It does not handle Plugin objects, conditions or retries: the controller does, based on
// *[LoadError].
package catalog
