// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crash tests that killing the operator at any moment of a Backup, a Restore or
// a DeletionRun, and starting it again, ends like an undisturbed run: in the same
// phase, with the same archive or the same objects, or with the same remainder, and with
// no clean-up owed.
//
// It observes the operator from outside. Between a real operator process and the
// API server, and between it and an S3 server, there is a [gate] each, which counts
// the writes for one run and, at the k-th write, kills the operator: before
// the write is passed on, so that it is lost, or after it was answered, so that
// only the answer is lost. The plugin of test/faultplugin counts its calls, and can kill the
// operator at one of them. Every k gets its own run. A Restore also gets its own namespaces,
// and definitions that were deleted before, and a DeletionRun gets a Backup, with a
// Restore of it.
//
//	scenario   a run that ends in one way, the sweeps over it, and what may differ
//	work       what differs between kinds of runs: backups, restores, deletions
//	lane       an operator with its environment, for runs one after the other
//	sweep      one run for each chosen write of a recorded run, hit there
//	point      such a write
//	result     what has to be the same, and the invariants
//
// A Restore that was hit counts each object with its original outcome, because it recognizes its
// own objects by an annotation that they are created with: the counts, the list of
// resources and the warnings are those of an undisturbed run. There is one exception.
// An object that is to be recreated is deleted first; if the operator exits before the object
// exists again, the next one finds nothing and counts it as created.
//
// TestVolumes does the same for claims whose data is captured in CSI snapshots, with the real sidecars
// of CSI and the driver of test/csidriver. The CSI plugin has a gate, too, and what is hit may be the plugin, a sidecar,
// or the run, which a user cancels or deletes. Each run is part of a story: a Backup with a freeze and a thaw, the
// end of the namespace, a Restore into another one, and a DeletionRun. A run whose plugin was killed may
// be PartiallyFailed, but none leaves a snapshot in the driver that no backup has.
//
// Not every write is hit. Writes of one method to one resource, or to one sort of file,
// are a class. Each sweep hits one write of each class, which differs between the sweeps of a
// scenario. In scenarios that are not sampled, the operator is killed after the first write of each
// class, after the last one, and after one between them. Where it is killed after a write, it is
// not also killed before one of the same kind. The choice depends only on
// what a run writes, and each sweep fails if it never hit a class.
//
// With LONG=1, every write of every scenario is hit, before and after, which takes several times as long:
//
//	LONG=1 go test -timeout 2h ./test/crash
//
// This package has only tests.
package crash
