// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reach determines which namespaces an action may touch: only those that its Backup or
// Restore includes. A user who may create a Backup of one namespace must not be able to run
// commands in the pods of another.
//
//	TargetNamespaces   the parent of a call → the namespaces of the cluster that it includes
//
// A Restore includes namespaces by their names in the backup; if it maps them, their target names
// count. It includes only namespaces that the backup contains: the Restore records them in its
// status when it reads the backup.
package reach
