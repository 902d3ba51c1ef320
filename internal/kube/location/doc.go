// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package location opens the storage location that a BackupStorageLocation
// object describes.
//
// Opener.Open reads the object and, for S3, its Secret, and returns the backups
// that are stored there. It knows which providers there are; what a backup looks
// like in a store is the business of internal/backupstore.
package location
