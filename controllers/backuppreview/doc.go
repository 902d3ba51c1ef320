// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backuppreview reconciles BackupPreviews: it says which actions a Backup would call, and
// how many objects it would archive, without doing either. See docs/adr/0017-backup-previews.md.
package backuppreview
