// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pvc makes a PersistentVolumeClaim find the volume with its data, or
// wait for it. The archive contains no data of volumes, so a claim must never
// silently get an empty one:
//
//	the claim in the archive              what happens
//	was not bound                         restored as it was
//	bound, the backup holds the data      restored without volumeName, dataSource and
//	                                      dataSourceRef: it gets a new volume, which is
//	                                      filled from the backup
//	bound, the backup does not            restored with its volumeName, and a warning
//	belongs to a Pod (ephemeral volume)   left out: the Pod makes a new one
//
// A claim with a volumeName binds to that volume and no other: nothing is
// provisioned for it. While the volume is missing, the claim stays Pending, and
// so does its pod; a StatefulSet finds its claim and does not make an empty one
// in its place. The volume comes before the claim, if it is in the archive; what
// becomes of it says package pv.
//
// What the old cluster noted about binding, scheduling and provisioning is
// removed: with it, a claim would count as bound, and be Lost.
package pvc
