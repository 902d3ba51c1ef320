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
// What fails for one object, kind or API group is recorded in Result.Results
// and never ends a run. Run returns an error only for what makes a backup
// impossible: the context ended, the cluster cannot be discovered or its
// namespaces cannot be listed, or the archive cannot be written.
//
// The engine knows no custom resources of Grapnel, no stores and no hooks; it
// is told what to select and where to write by its caller.
package backup
