// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package imported makes the Backup object of a backup that was found in a location.
//
// All that is told comes from the manifest velero-backup.json, which Velero, Grapnel and
// Grapnel in other clusters write. Anybody may have written it: what the API would refuse
// is left out or an error, and what would mislead somebody here is left out, too:
//
//   - labels and annotations by which GitOps tools recognise their own objects (package
//     gitops), those of Grapnel itself, which mean things of the cluster that set them, and
//     those of Velero that name its location;
//   - the schedule is kept under another label, [LabelSchedule], so that no Schedule of the
//     same name counts, restores or destroys backups that it did not make;
//   - spec.ttl, as nothing of another cluster expires here, and spec.deletionPolicy.
//
// It is pure; what is in the location is handed in, and the object is created by
// controllers/backupsync.
package imported
