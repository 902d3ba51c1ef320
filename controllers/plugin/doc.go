// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugin keeps Plugins loaded and their status true.
//
// A Plugin is loaded when it is created, changed, or when its process ended by
// itself. What has no program next to the operator is built from the Plugin alone (Builder),
// or connected to. Loading runs in the background: a process that hangs while it starts
// delays only itself. A plugin that can not be loaded makes only its own Plugin
// not ready, and is tried again with back-off.
//
// A finalizer keeps a Plugin while a HookRun that has not ended names it: what
// is owed must be able to run.
package plugin
