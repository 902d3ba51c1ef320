// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage manages the files of backups in a storage location. It defines which
// files there are, under which keys, in which order they are written, and when a backup is
// complete. It is the only place that builds keys.
//
// The layout is Velero's, so that a Velero server can use the same bucket.
// Below the prefix of the location:
//
//	backups/<b>/velero-backup.json     the manifest; its presence makes the backup
//	backups/<b>/<b>-grapnel.json       Grapnel's own manifest: owner, digests, outputs
//	backups/<b>/<b>.tar.gz             the archive
//	backups/<b>/<b>-logs.gz ...        the files listed at File
//	backups/<b>/<b>-claim.json         the claim that permits writes, see below
//	backups/<b>/<b>-claim-2.json ...   the same; the highest number is valid
//	restores/<r>/restore-<r>-logs.gz   the files listed at RestoreFile
//
// Nothing is written elsewhere: another top-level prefix would make Velero reject the
// bucket.
//
// A backup is written in these steps:
//
//	Claim         takes the name for the UID of a Backup object
//	BeginAttempt  takes the next number, and ends all earlier attempts of that UID
//	PutContents   stores the archive, as one stream
//	PutFile       stores logs, results and so on; PutJSON for JSON
//	Commit        writes the manifests, the Velero one last, and checks that all files exist
//
// When the run ends without a manifest, EndAttempts, Discard and Release follow. Each step
// may be retried, and an interrupted run starts again at Claim.
//
// A backup that waits for operations between PutContents and Commit stores its state in the
// file Draft until then. A recreated archive is stored beside the first one, as
// MergedContents with MergedDraft, and replaces it once both are complete: not every store
// replaces an object atomically. RemoveDraft removes all of these files.
//
// # Claims
//
// Several clusters may share a bucket, so a backup takes its name with a claim file,
// created with put-if-absent. The same UID may claim again. When a run ends without a
// manifest, its claim is marked as released, and the next UID creates <b>-claim-2.json, and
// so on. One put-if-absent decides every change of ownership, and the highest number is
// valid. If the store does not support that (Store.Capabilities), the claim is read back
// after it was written, which makes a collision unlikely, not impossible.
//
// # Attempts
//
// Two processes may work for the same UID: one has lost its lease and does not know it yet.
// So each attempt to write the backup creates the next claim of its UID, with a random
// token in it. Three rules protect a backup that was reported as complete:
//
//   - Each write checks that its attempt has the highest claim. A write in progress when
//     another attempt begins may still take effect.
//   - An attempt removes the files of earlier ones and creates its own with put-if-absent,
//     so a late write replaces nothing.
//   - Commit writes the manifest, and only then checks whether its attempt is still the
//     highest and its files are the ones that it stored. It compares size and ETag, which
//     cost one list and, in stores that write ETags in another form there, a Stat;
//     otherwise it compares digests. A new attempt creates its claim first and then looks
//     for a manifest. So one of the two sees the other. An invalid manifest is removed.
//
// EndAttempts begins an attempt that writes nothing, and Release leaves a claim without a
// holder. In both cases a late writer finds that its attempt is over.
//
// In a store without put-if-absent, a write that takes effect after the check of the commit
// replaces the file, and a Restore fails because of its digest. In a store without ETags,
// Commit does not read files of more than 64 MiB again. Finally, a process that is paused
// exactly between a check and the removal of an earlier file removes that file later. The
// fence of the lease, which is checked before each call, has to prevent this.
//
// This package does not know the contents of the archive or the files, and does not
// discover clusters; see packages archive and runlog.
package storage
