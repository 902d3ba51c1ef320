// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package itemaction defines how the engines process single objects: the backup engine before it
// writes them to the archive, and the restore engine between the archive and the cluster, apart from
// creating them. Both call actions, which may change an object, skip it, or name others that it
// requires. Item actions of plugins are adapted to the same interfaces.
//
//	Action         an action on objects that are archived (internal/backup/action has the built-in ones)
//	RestoreAction  an action on objects that are restored (internal/restore/action)
//
// An action names the objects that an object requires, and the engine decides whether they may be in
// the backup. Restore actions work on unstructured objects of an archive that anyone may have
// written: they treat a field of a wrong type as missing, and let the API server reject it.
package itemaction
