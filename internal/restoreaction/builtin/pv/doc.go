// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pv decides how a PersistentVolume is restored: an object that refers to storage
// which is not in the archive. A claim must never silently get a volume without its data.
//
//	the volume in the archive                  what happens
//	was never bound                            restored: it contains no data
//	bound, the backup contains the data        skipped: its claim gets a new volume,
//	                                           which is filled from the backup
//	bound, reclaim policy Retain               restored unchanged, with a warning
//	bound, reclaim policy Delete or Recycle    an error of the item
//	released, reclaim policy Retain            restored unchanged, and stays released
//	released, reclaim policy Delete or Recycle skipped: its storage was to be deleted
//
// Retain means that storage outlives its object. That includes static volumes (nfs,
// hostPath, a csi handle that an administrator entered). The restored volume refers to the
// same storage and is reserved for the restored claim, whose namespace may be mapped. Only
// its driver knows whether that storage exists, and its current content; the warning
// mentions that.
//
// With Delete or Recycle, the storage was deleted with the old claim. A restored volume
// object would lead a pod to a missing volume or, with drivers that create directories as
// needed, to an empty one. So the result is a restoreaction.CreationRefusedError: if the
// volume object still exists in the cluster, it was not deleted, and there is no problem.
// The claim is restored in any case, and requests exactly this volume (see package pvc), so
// it waits instead of getting an empty one.
//
// A restored volume keeps pv.kubernetes.io/provisioned-by: its driver treats it as before,
// also if a user changes the policy to Delete. A volume is never renamed: two objects for
// the same storage lead to data loss.
//
// RebindVolume handles the most common case: the namespace was deleted, and the volume with
// policy Retain is still in the cluster, released.
package pv
