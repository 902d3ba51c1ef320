// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deletable asks DeleteActions of plugins which Backups concern them. What they do
// about one is a HookRun, and called by package executor.
package deletable
