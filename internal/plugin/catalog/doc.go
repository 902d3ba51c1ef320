// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package catalog knows which plugins are loaded and which actions they provide.
// It is what controllers use.
//
//	Load      start a plugin, or look at it again, or replace it if its binary or its
//	          specification changed
//	Executor  a way to run one action of a loaded plugin
//	BackupItemAction, RestoreItemAction, DeleteItemAction, DeleteAction, ObjectStore
//	          how to reach an action of these kinds, for package caller
//	Declared  the actions of a plugin that has no process: Jobs, commands in pods, webhooks
//	Unload    forget a plugin and end its process once its open calls have ended
//	Close     the same for all of them
//
// Plugins are known by the names of their Plugin objects, actions by kind and
// registered name; no two plugins may provide the same action: the older Plugin does. A
// plugin that cannot be loaded affects no other. If a newer binary or specification of a
// loaded plugin cannot be started, the process that runs stays in service: somebody may
// depend on its clean-up.
//
// A plugin has one process for all of its actions, and one more for every location that
// one of its ObjectStores keeps.
//
// It is NOT concerned with Plugin objects, conditions or retries: the controller
// is, and gets a *[LoadError] to do it with.
package catalog
