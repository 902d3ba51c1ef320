// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package external has what item actions of plugins have in common, whether they see
// objects of a backup, of a restore, or of a backup that is being deleted.
//
//	Filter             which objects an action wants to see
//	Guard              gives an action up that does not answer any more
//	ValidateReturnedObject        is what came back still that object
//	ValidateItemRefs          can the objects that it names exist
//	ExtractAnnotations    what an action says in annotations of the object, for Grapnel only
//	ParseBackupLabels         the labels for the Backup among that
//
// What a plugin answers is hostile input: everything is checked here before an engine
// acts on it. How plugins are called is not known here; see internal/plugin/caller.
package external
