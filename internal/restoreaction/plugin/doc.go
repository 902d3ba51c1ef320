// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugin lets RestoreItemActions of plugins take part in a restore: it is the
// restoreaction.External of one such action in one run.
//
//	Choose    asks AppliesTo and compiles the answer, once
//	Concerns  compares an object with that; namespaces are those of the cluster
//	Execute   one call for one object, within its deadline; checks the answer
//
// Plugins of Velero see here what they see there: the object after its metadata was
// cleaned, in the namespace and with the labels that it had in the backup, and beside
// it the object as it was archived. Objects that they name, and those that they are
// asked about when these are restored, are in the namespaces of the backup as well.
//
// An action may make an object of another version or kind of it, and must leave its
// name. Whether the cluster serves that, the engine knows.
//
// Everything an action answers is checked before the engine sees it. An error is one of
// the object, says which plugin it comes from, and is redacted. An action that does not
// answer any more is given up for the rest of the run; one that the user can do without
// leaves the object as it is then, with a warning.
//
// Actions of both kinds, RestoreItemAction and AsyncRestoreItemAction, may tell of an
// operation that they started. One of an answer that is refused is canceled at once,
// because nobody would ever ask for its end; the error says what became of it.
//
// How an action is called is the business of internal/itemaction/remote.
package plugin
