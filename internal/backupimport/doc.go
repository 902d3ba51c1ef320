// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backupimport builds the Backup object of a backup that was found in a location.
//
// All its data comes from the manifest velero-backup.json, which Velero, Grapnel and
// Grapnel in other clusters write. The manifest is untrusted: fields that the API would reject
// are omitted or are an error. Fields that would be misleading in this cluster are omitted, too:
//
//   - labels and annotations by which GitOps tools recognize their own objects (package
//     names), those of Grapnel itself, which refer to the cluster that set them, and
//     those of Velero that name its location;
//   - the label of the schedule is renamed to [LabelSchedule]. Otherwise a Schedule of the
//     same name would count, restore or delete backups that it did not create;
//   - spec.ttl, because backups of other clusters do not expire here, and spec.deletionPolicy.
//
// It is pure: the caller passes the content of the location, and controllers/backupsync creates
// the object.
package backupimport
