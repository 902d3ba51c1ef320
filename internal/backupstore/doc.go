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
//	restores/<r>/restore-<r>-logs.gz   the files listed at RestoreFile
//
// Nothing is written elsewhere: another top-level prefix would make Velero
// reject the bucket.
//
// The life of a backup here:
//
//	Claim        takes the name for the UID of a Backup object
//	PutContents  stores the archive, as one stream
//	PutFile      stores logs, results and so on; PutJSON for JSON
//	Commit       checks that all is there and writes the manifests, the Velero one last
//
// A backup that waits for operations between PutContents and Commit keeps what it knows
// in the file Draft until then. An archive that is written anew is stored beside the
// first one, as MergedContents with MergedDraft, and takes its place once both are
// complete: not every store replaces an object in one step. RemoveDraft removes all of
// them.
//
// or, when the run ends without a manifest, Discard and Release. Each step may
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
// Between processes that work for the same UID the claim does not decide; that
// is the task of leader election. A process that lost its lease must end the
// context of its calls; an upload then leaves nothing behind.
//
// This package does not know what is inside the archive or the files, and does
// no discovery of clusters; see packages archive and runlog.
package backupstore
