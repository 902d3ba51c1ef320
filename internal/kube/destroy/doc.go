// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package destroy is for those who have backups destroyed: it makes the DeletionRuns, and
// tells whether a Restore still reads a Backup.
//
// What a DeletionRun does is in controllers/deletionrun.
package destroy
