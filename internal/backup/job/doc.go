// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package job connects the engine and the store: it runs one backup from the claim on its
// name to the manifest that commits it.
//
//	CheckClaim, Claim     check that the name is free; take it
//	Archive               a new attempt: engine → tarball, then every other file, the manifests last
//	Finalize              the same after operations, see below
//	Abandon               end a run without a manifest: store its log, release its name
//	UploadPostActionLog   store the log of the PostBackup actions
//
// Every step may be retried: an interrupted run starts again at its beginning, and Archive
// first checks whether it has already succeeded.
//
// # Operations
//
// If item actions started operations, Archive stores the tarball and, instead of everything
// else, a draft: the state that is needed to continue, also by another operator. When the
// operations have ended, Finalize archives the objects that they requested, streams the
// tarball with these objects to a second file, stores a second draft beside that, replaces
// the first tarball with the new one, and continues like Archive. Nothing is replaced
// before its replacement is completely stored, so every step may fail. Item actions are
// called for those objects again and see the Backup in the phase Finalizing, as in Velero.
// Actions that only start operations are not called.
//
// The package uses plain values and does not know custom resources; controllers/backup
// decides when a step runs.
package job
