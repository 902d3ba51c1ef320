// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crash tests that killing the operator at any moment of a Backup, a Restore or
// a DeletionRun, and starting it again, ends like an undisturbed run: in the same
// phase, with the same archive or the same objects, or with as little left, and with
// everything paid that was owed.
//
// It observes the operator from outside. Between a real operator process and the
// API server, and between it and an S3 server, stands a [gate] each, which counts
// what is written for one run and, at the k-th write, kills the operator: before
// the write is passed on, so that it is lost, or after it was answered, so that
// only the answer is. Plugin calls are counted, and killed at, by the plugin of
// test/faultplugin. Every k gets a run of its own, a Restore also namespaces of its
// own, and definitions that were removed before, and a DeletionRun a Backup, with a
// Restore of it.
//
//	scenario   a run that ends in one way, the sweeps over it, and what may differ
//	work       what differs between kinds of runs: backups, restores, deletions
//	lane       an operator with all it needs; its runs follow each other
//	sweep      one run for each write of a recorded one that is chosen, hit there
//	point      such a write
//	result     what has to be the same, and what has to hold in any case
//
// A Restore that was hit counts each object as what it was made, because it knows its
// own objects by an annotation that they are created with: the counts, the list of
// resources and the warnings are those of an undisturbed run. There is one exception.
// An object that is to be recreated is deleted first; if the operator ends before it
// is there again, the next one finds nothing and counts it as created.
//
// Not every write is hit. Writes of one method to one resource, or to one sort of file,
// are a class. Each sweep hits, of each class, the first write, the last one, and one
// between them, which is another one in each sweep of a scenario; see some for those that
// need less: sweeps that are about how the operator ends, those before writes of objects,
// and scenarios that differ from an ordinary one only later on. The choice depends on
// nothing but what a run writes, and each sweep complains if it never hit a class.
//
// With GRAPNEL_CRASH_EVERYTHING=yes every write of every scenario is hit, which takes several
// times as long:
//
//	GRAPNEL_CRASH_EVERYTHING=yes go test -timeout 2h ./test/crash
//
// There is nothing here but tests.
package crash
