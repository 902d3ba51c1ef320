// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package job joins the store and the engine: it carries one restore from the
// manifest of its backup to the files that say what became of each object.
//
//	Find          is there such a backup, and what does its manifest say
//	Verify        archive → verified scratch file, which Restore takes
//	Restore       the same unless it was done, → engine → log, results, resource list
//	Finalize      store how the operations ended that actions had started
//	StorePendingReport     store what Restore could not store
//	Abandon       a run that failed or was stopped: store its log, the reason, and what
//	              became of its objects if that was not stored before
//	UploadPostActionLog  what the PostRestore actions logged
//	Release       the archive that Verify made is not needed
//	Forget        the run is over: nothing is kept of it any more
//
// Restore also makes the actions of plugins ready for one run, and shows them the
// Restore as Velero would (actions.go).
//
// Every step may be repeated: the engine finds what an interrupted run created, and what
// Finalize adds to the results takes the place of what it added before. Between Restore
// and Finalize may be hours and another operator, so nothing but the store has to last:
// the results say whose they are, and a log that lacks its beginning is joined to the one
// in the store.
//
// It takes plain values and knows no custom resources; when a step runs is
// decided by controllers/restore.
package job
