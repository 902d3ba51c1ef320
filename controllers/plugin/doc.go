// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugin keeps Plugins loaded and their status up to date.
//
// A Plugin is loaded when it is created, changed, or when its process ended by itself. A
// plugin without a program next to the operator is built from the Plugin alone (Builder), or
// connected to. Loading runs in the background: a process that hangs while it starts delays
// only itself. A plugin that cannot be loaded makes only its own Plugin not ready, and is
// retried with back-off.
//
// A finalizer holds a Plugin while an unfinished HookRun names it, or an unfinished run calls its
// item actions: owed clean-up must be able to run.
package plugin
