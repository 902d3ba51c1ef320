// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reach says which namespaces an action may touch: those that its Backup or Restore
// includes, and no others. Whoever may create a Backup of one namespace must not have
// commands run in the pods of another.
//
//	Namespaces   what a call is for → the namespaces of the cluster that it includes
//
// A Restore includes namespaces by the names that they have in the backup; where it maps
// them, the ones that they are mapped to count. Only those that the backup has are included:
// the Restore notes them in its status when it reads the backup.
package reach
