// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storagelocation keeps the status of BackupStorageLocations.
//
// A location is checked when it is created or changed, and then at an interval,
// because no bucket tells when it breaks. One that a plugin keeps is looked at, too,
// whenever what its Plugin says of itself changes. The check itself (list, write, read,
// delete one small object) runs in the background; Reconcile starts it, and is
// woken to record what came of it.
package storagelocation
