// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugins runs plugins that are built with Velero's own framework under
// Grapnel, unmodified. Package sdkplugins does the reverse.
//
// The plugin for Velero is package actions, in a directory below this one. The directories
// v1.14 and v1.18 build it with these releases of Velero, each with the dependencies
// that the release has; that makes four modules. Building them takes minutes the first
// time on a machine.
//
// The tests call the plugins as the engines do, through the catalog of plugins, and
// compare every answer with that of the same action called directly.
package plugins
