// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package job connects the store and the engine: it runs one restore from the manifest of
// its backup to the files with the outcome of each object.
//
//	ReadManifest         read the manifest of the backup, if it exists
//	VerifyArchive        archive → verified scratch file, which Restore takes
//	Restore              the same if it was not done, → engine → log, results, resource list
//	Finalize             store the outcome of the operations that actions had started
//	StorePendingReport   store what Restore could not store
//	Abandon              end a failed or canceled run: store its log, the reason, and the
//	                     outcome of its objects if that was not stored before
//	UploadPostActionLog  store the log of the PostRestore actions
//	ReleaseArchive       remove the archive of VerifyArchive
//	RemoveLocalFiles     remove all local files after the run
//
// Restore also prepares the actions of plugins for one run, and passes the Restore to them
// as Velero would (actions.go).
//
// Every step may be retried: the engine finds what an interrupted run created, and what
// Finalize adds to the results replaces what it added before. Between Restore and Finalize
// may be hours and another operator, so only the store must be persistent: the results name
// their Restore, and a log without its beginning is joined to the one in the store.
//
// The package uses plain values and does not know custom resources; controllers/restore
// decides when a step runs.
package job
