// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backup is the engine that archives selected objects of a cluster: discover,
// select, collect, call actions, write.
//
// Engine.WriteArchive writes one backup. It discovers the resources and namespaces of the
// cluster (plan.go), lists all selected kinds concurrently (collection.go, with
// internal/rawclient), drops objects that are not selected and calls the item actions for
// the rest (actions.go). Then it gets the objects that actions named as related
// (relateditems.go), and finally the Namespace objects. Everything flows in batches of raw
// JSON through one channel to the goroutine that called WriteArchive, which is the only one
// to write (writer.go). Only names are retained, so memory does not grow with the size of
// the objects.
//
// # Item actions
//
// Actions are called in order for each object, the built-in ones first, and each sees the
// result of the previous one (actionexecution.go). Those of Grapnel itself are called for
// one object after another, as it arrives. The selectors of plugins
// (itemaction.BackupPluginAction) are requested before anything is listed; their actions are then
// called for several objects at a time, Options.ActionWorkers in total for a run. The
// objects of a batch wait for each other and keep their order. While a plugin is slow, the
// lists wait with it, and memory does not grow.
//
// With AllVersions, an action gets an object once in each archived version, as in Velero.
// It must make the same change in all of them, because a restore uses any of them.
//
// Other results of actions are in actionreports.go: labels for the Backup, where the first
// value of a key is used, and how often each action was called, for the log and the
// results.
//
// # Operations
//
// An action may start an operation that continues after the archive is written. The engine
// reports it to the caller at once, through ArchiveRequest.OnOperationStarted, so that it
// is tracked even if the run ends immediately afterwards. An operation that cannot be
// reported is canceled (operation.go). While it is being reported, another object may have
// the slot for calls of plugins. The run does not wait for operations. When they have ended,
// a second run with ArchiveRequest.OnlyItems archives their results (itemlist.go), and
// archive.Merge adds them to the first archive.
//
// Objects that actions name are read after everything is listed, each at most once and only
// if it is not in the archive by then, until no new ones are named. So cycles end, and an
// endless list ends at a limit (relateditems.go).
//
// # Failures
//
// Failures of one object, kind or API group are recorded in ArchiveResult.Results and never
// end a run. WriteArchive returns an error only if a backup is impossible: the context
// ended, the cluster cannot be discovered or its namespaces cannot be listed, or the
// archive cannot be written.
//
// The engine does not know Grapnel's custom resources, stores or hooks. The caller
// determines what to select and where to write.
//
// # Runner
//
// A Runner connects the engine and the store: it runs one backup from the claim on its
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
// If item actions started operations, Archive stores the tarball and, instead of everything
// else, a draft: the state that is needed to continue, also by another operator. When the
// operations have ended, Finalize archives the objects that they requested, streams the
// tarball with these objects to a second file, stores a second draft beside that, replaces
// the first tarball with the new one, and continues like Archive. Nothing is replaced
// before its replacement is completely stored, so every step may fail. Item actions are
// called for those objects again and see the Backup in the phase Finalizing, as in Velero.
// Actions that only start operations are not called.
//
// controllers/backup decides when a step runs.
package backup
