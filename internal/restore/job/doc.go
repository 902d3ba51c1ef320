// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package job joins the store and the engine: it carries one restore from the
// manifest of its backup to the files that say what became of each object.
//
//	Find          is there such a backup, and what does its manifest say
//	Restore       archive → verified scratch file → engine → log, results, resource list
//	Abandon       a run that failed: store its log, the reason, and what was not stored before
//	StorePostLog  what the PostRestore actions logged
//	Forget        the run is over: nothing is kept of it any more
//
// Restore also makes the actions of plugins ready for one run, and shows them the
// Restore as Velero would (actions.go).
//
// Every step may be repeated: the engine finds what an interrupted run created.
//
// It takes plain values and knows no custom resources; when a step runs is
// decided by controllers/restore.
package job
