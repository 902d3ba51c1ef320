// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package location opens the storage location that a BackupStorageLocation
// object describes.
//
// Opener.Open reads the object and, if it names one, its Secret, and returns the
// backups that are stored there. It knows which providers there are; what a backup
// looks like in a store is the business of internal/backupstore.
//
// For the location of a plugin it finds the Plugin that provides the ObjectStore, and
// puts the credentials into a file. The process belongs to the plugin catalog, which
// keeps one for each location; the file is kept as long as the process, and replaced
// when the Secret changes. Both go when the location is deleted (Forget, or ReleaseReplacedLocation if
// there is another one of its name already) or gets another provider, and the files that
// a killed operator left go when the next one starts (RemoveLeftovers).
package location
