// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package retention decides which Backups are kept, and builds the DeletionRuns of those that are not.
//
// It finds the Backups that a Schedule created ([BelongsToSchedule]) and converts them to the input
// of package schedule ([ToRuns]), and reports whether a Backup is protected by keepLast
// ([ProtectingSchedule]) or used by a Restore ([IsUsedByRestore]). Package controllers/deletionrun
// executes DeletionRuns.
package retention
