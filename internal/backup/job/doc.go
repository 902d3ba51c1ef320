// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package job joins the engine and the store: it carries one backup from
// the claim on its name to the manifest that completes it.
//
//	Check, Claim   is the name free; take it
//	Archive        engine → tarball, then every other file, the manifests last
//	Abandon        a run that ends without a manifest: keep its log, free its name
//	StorePostLog   what the PostBackup actions logged
//
// Every step may be repeated: a run that was interrupted anywhere starts again
// at its beginning, and Archive first looks whether it had already succeeded.
//
// It takes plain values and knows no custom resources; when a step runs is
// decided by controllers/backup.
package job
