// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backupstore knows what there is of a backup in a storage location:
// which files, under which keys, in which order they are written, and when a
// backup counts as complete. It is the only place that builds keys.
//
// The layout is Velero's, so that a Velero server can use the same bucket.
// Below the prefix of the location:
//
//	backups/<b>/velero-backup.json     the manifest; its presence makes the backup
//	backups/<b>/<b>-grapnel.json       Grapnel's own manifest: owner, digests, outputs
//	backups/<b>/<b>.tar.gz             the archive
//	backups/<b>/<b>-logs.gz ...        the files listed at File
//	backups/<b>/<b>-claim.json         who may write here, see below
//	backups/<b>/<b>-claim-2.json ...   the same, the highest number counts
//	restores/<r>/restore-<r>-logs.gz   the files listed at RestoreFile
//
// Nothing is written elsewhere: another top-level prefix would make Velero
// reject the bucket.
//
// The life of a backup here:
//
//	Claim         takes the name for the UID of a Backup object
//	BeginAttempt  takes the next number, and ends all earlier attempts of that UID
//	PutContents   stores the archive, as one stream
//	PutFile       stores logs, results and so on; PutJSON for JSON
//	Commit        writes the manifests, the Velero one last, and checks that all is there
//
// A backup that waits for operations between PutContents and Commit keeps what it knows
// in the file Draft until then. An archive that is written anew is stored beside the
// first one, as MergedContents with MergedDraft, and takes its place once both are
// complete: not every store replaces an object in one step. RemoveDraft removes all of
// them.
//
// or, when the run ends without a manifest, Withdraw, Discard and Release. Each step may
// be repeated, and a run that was interrupted anywhere starts again at Claim.
//
// # Claims
//
// Several clusters may share a bucket, so the name of a backup is taken by a
// claim file, created with put-if-absent. The same UID may claim again. When a
// run ends without a manifest its claim is marked as released, and the next
// taker creates <b>-claim-2.json, and so on: every change of hands is decided
// by one put-if-absent, and the highest number holds. Where the store cannot
// do that (Store.Capabilities) the claim is read back after it was written,
// which makes a collision unlikely, not impossible.
//
// # Attempts
//
// Two processes may work for the same UID: one has lost its lease and does not know it
// yet. So each attempt to write the backup makes the next claim of its UID, with a random
// word in it. Three rules keep a backup that was reported to be complete:
//
//   - Each write checks that its attempt has the highest claim. What is under way when
//     another attempt begins may still arrive.
//   - An attempt removes the files of earlier ones and creates its own with
//     put-if-absent, so that what arrives late replaces nothing.
//   - Commit writes the manifest, and only then looks whether its attempt is still the
//     highest and its files are those that it stored: by size and ETag, which cost one
//     list and, where that writes ETags in another way, a Stat, or else by digest. A new attempt makes its claim first and then looks for a
//     manifest. So one of the two sees the other. A manifest that may not stay is removed.
//
// Withdraw begins an attempt that writes nothing, and Release leaves a claim that nobody
// holds: a late writer finds in both that its attempt is over.
//
// Where the store cannot put if absent, what arrives after the commit was checked
// replaces the file, and a Restore fails because of its digest. Where it tells no ETag,
// files of more than 64 MiB are not read again by Commit. And a process that is paused
// exactly between a check and the removal of an earlier file removes that file later; the
// fence of the lease, which is checked before each call, has to prevent this.
//
// This package does not know what is inside the archive or the files, and does
// no discovery of clusters; see packages archive and runlog.
package backupstore
