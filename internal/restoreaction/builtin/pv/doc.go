// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pv decides what becomes of a PersistentVolume: an object that names
// storage which the archive does not contain. A claim must never silently get a
// volume without the data it had.
//
//	the volume in the archive                  what happens
//	was never bound                            restored: it holds nobody's data
//	bound, the backup holds the data           left out: its claim gets a new volume,
//	                                           which is filled from the backup
//	bound, reclaim policy Retain               restored as it is, with a warning
//	bound, reclaim policy Delete or Recycle    an error of the item
//	released, reclaim policy Retain            restored as it is, and stays released
//	released, reclaim policy Delete or Recycle left out: its storage was to be deleted
//
// Retain means that storage outlives its object, also static volumes (nfs,
// hostPath, a csi handle that an administrator entered). The restored volume
// names the same storage and is reserved for the restored claim, whose namespace
// may be mapped. Whether that storage is there, and what is in it now, only its
// driver knows; the warning says so.
//
// With Delete or Recycle the storage went when the old claim did. A volume
// object in its place would lead a pod to a missing volume or, with drivers that
// make directories as needed, to an empty one. It is a restoreaction.CreateError:
// where the volume object still exists in the cluster, it was not deleted, and
// nothing is wrong. The claim is restored all the same, and asks for exactly this
// volume (see package pvc), so that it waits rather than gets an empty one.
//
// A restored volume keeps pv.kubernetes.io/provisioned-by: its driver treats it
// as before, also if somebody changes the policy to Delete. A volume is never
// renamed: two objects for one storage are how data gets lost.
//
// Rebind serves the commonest case of all: the namespace was deleted, and the
// volume with policy Retain is still in the cluster, released.
package pv
