// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backup is the engine that turns a selection of a cluster's objects
// into an archive: discover, select, collect, act, write.
//
// Engine.Run does one backup. It learns what the cluster serves and which
// namespaces exist (plan.go), lists all selected kinds at the same time
// (collect.go, with internal/kube/list), drops what the selection leaves out
// and shows the rest to the item actions (actions.go); it then fetches the
// objects that actions named as related (related.go), and last the Namespace
// objects. Everything flows in batches of raw JSON through one channel to the
// goroutine that called Run, which is the only one to write (write.go). Nothing
// is held back but names, so that memory does not grow with the cluster.
//
// # Item actions
//
// Actions are asked in their order about each object, the built-in ones first, and each
// sees what the one before left (act.go). Those of Grapnel itself are asked one object
// after another, as it comes in. Those of plugins (itemaction.External) are asked
// before anything is listed which objects concern them, and then about several objects
// at a time, Options.ActionWorkers in all for a run; the objects of a batch wait for
// each other and keep their order. While a plugin is slow, the lists that are being
// read wait with it, and memory does not grow.
//
// With AllVersions an action sees an object once in each version that is archived, as
// in Velero: what it changes must be changed in all of them, because a restore takes
// any of them.
//
// What actions say beside that is in told.go: labels for the Backup, of which the first
// value counts; and how often each was asked, for the log and the results.
//
// # Operations
//
// An action may start an operation that goes on after the archive is written. The caller
// is told of it at once, through Request.Started, so that somebody sees to it from then
// on, even if the run ends in the next moment; what cannot be told is canceled
// (operation.go). The run does not wait for operations. When they have ended, a second
// run with Request.Only archives the objects that they left behind (only.go), which
// archive.Merge then puts into the first archive.
//
// Objects that actions name are fetched after everything is listed, each at most once
// and only if it is not in the archive by then, until no new ones are named. So cycles
// end, and an endless list ends at a limit (related.go).
//
// # Failures
//
// What fails for one object, kind or API group is recorded in Result.Results
// and never ends a run. Run returns an error only for what makes a backup
// impossible: the context ended, the cluster cannot be discovered or its
// namespaces cannot be listed, or the archive cannot be written.
//
// The engine knows no custom resources of Grapnel, no stores and no hooks; it
// is told what to select and where to write by its caller.
package backup
