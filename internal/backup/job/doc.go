// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package job joins the engine and the store: it carries one backup from
// the claim on its name to the manifest that completes it.
//
//	Check, Claim   is the name free; take it
//	Archive        a new attempt: engine → tarball, then every other file, the manifests last
//	Finalize       the same after operations, see below
//	Abandon        a run that ends without a manifest: keep its log, free its name
//	UploadPostActionLog   what the PostBackup actions logged
//
// Every step may be repeated: a run that was interrupted anywhere starts again
// at its beginning, and Archive first looks whether it had already succeeded.
//
// # Operations
//
// If item actions started operations, Archive stores the tarball and, in the place of
// everything else, a draft: what has to be known to go on, also by another operator.
// When the operations have ended, Finalize has the objects archived that they asked for,
// streams the tarball with them in it to a file beside the first, stores a second draft
// beside that, puts the new tarball in the place of the first, and goes on as Archive does.
// Nothing is replaced before what replaces it is stored as a whole, so that every step
// may fail. Item actions are asked about those objects again and see the Backup in the
// phase Finalizing, as in Velero; those that do nothing but start operations are not.
//
// It takes plain values and knows no custom resources; when a step runs is
// decided by controllers/backup.
package job
