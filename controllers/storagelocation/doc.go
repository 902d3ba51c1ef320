// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storagelocation maintains the status of BackupStorageLocations.
//
// A location is checked when it is created or changed, and then at an interval,
// because a bucket does not report when it breaks. A location of a plugin is also checked
// whenever the status of its Plugin changes. The check itself (list, write, read and
// delete one small object) runs in the background. Reconcile starts it, and runs again
// to record its result.
package storagelocation
