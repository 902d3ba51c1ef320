// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deletable requests from DeleteActions of plugins which Backups they apply to.
// Executing them is done in HookRuns, through package executor.
package deletable
