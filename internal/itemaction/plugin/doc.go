// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugin lets BackupItemActions of plugins take part in a backup: it is the
// itemaction.External of one such action in one run.
//
//	plugin     one call for one object, made by package remote
//	answer     checks what came back and makes a Result of it; an operation that an
//	           answer tells of is canceled if the answer is not accepted
//	velero     annotations in which Velero's item actions talk to their server
//
// An object is sent as the JSON that it is archived as, and what comes back replaces
// that only if it differs: an action that changes nothing costs a call and a comparison.
//
// Everything an action answers is checked by package external before the engine sees it.
// An error is one of the object. The annotations are honored only if the action wrote
// them: the owner of the object has no say there. They are not archived then.
package plugin
