// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pvc makes a PersistentVolumeClaim bind to the volume with its data, or wait for
// it. The archive contains no data of volumes, so a claim must never silently get an empty
// one:
//
//	the claim in the archive              what happens
//	was not bound                         restored unchanged
//	bound, the backup contains the data   restored without volumeName, dataSource and
//	                                      dataSourceRef: it gets a new volume, which is
//	                                      filled from the backup
//	bound, the backup does not            restored with its volumeName, and a warning
//	belongs to a Pod (ephemeral volume)   skipped: the Pod creates a new one
//
// A claim with a volumeName binds only to that volume: nothing is provisioned for it. While
// the volume is missing, the claim stays Pending, and so does its pod. A StatefulSet finds
// its claim and does not create an empty one instead. If the volume is in the archive, it
// is restored before the claim; see package pv.
//
// Annotations of the old cluster about binding, scheduling and provisioning are removed:
// with them, a claim would count as bound, and be Lost.
package pvc
