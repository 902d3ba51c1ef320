// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package destroy builds DeletionRuns, and reports whether a Backup is protected by a Schedule or
// used by a Restore.
//
// Package controllers/deletionrun executes DeletionRuns.
package destroy
