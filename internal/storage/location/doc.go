// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package location opens the storage location that a BackupStorageLocation
// object describes.
//
// Opener.Open reads the object and, if it names one, its Secret, and returns the
// store of its backups. It knows all providers; internal/storage defines the
// format of a backup in a store.
//
// For a location of a plugin it finds the Plugin that provides the ObjectStore, and
// writes the credentials to a file. The process belongs to the plugin catalog, which
// keeps one per location. The file is kept as long as the process, and replaced
// when the Secret changes. Both are released when the location is deleted (ReleaseDeletedLocation,
// or ReleaseReplacedLocation if another location of the same name exists already) or gets another
// provider. The files that a killed operator left are removed when the next one starts
// (RemoveLeftovers).
package location
