// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package external has the common code for item actions of plugins, whether they process
// objects of a backup, of a restore, or of a backup that is being deleted.
//
//	Filter                     which objects an action handles
//	CircuitBreaker             stops calling an action that no longer answers
//	ValidateReturnedObject     checks that a returned object is still that object
//	ValidateItemRefs           checks that the objects it names can exist
//	ExtractAnnotations         removes the annotations that an action sets for Grapnel
//	ParseBackupLabels          parses the labels for the Backup in them
//
// Answers of a plugin are hostile input: everything is validated here before an engine uses
// it. The package does not call plugins; see internal/plugin/caller.
package external
