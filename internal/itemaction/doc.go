// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package itemaction defines how the engines process single objects: the backup engine before it
// writes them to the archive, and the restore engine between the archive and the cluster, apart from
// creating them. Both call an [Action], which may change an object, skip it, or name others that it
// requires. Item actions of plugins implement the same interface.
//
//	Action         an action in one run: internal/backup/action and internal/restore/action have
//	               the built-in ones
//	BackupItem     an object as actions of a backup get it
//	RestoreItem    an object as actions of a restore get it
//
// An action names the objects that an object requires, and the engine decides whether they may be in
// the backup. Restore actions work on unstructured objects of an archive that anyone may have
// written: they treat a field of a wrong type as missing, and let the API server reject it.
package itemaction
