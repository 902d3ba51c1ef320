// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugin runs BackupItemActions of plugins in a backup: it implements
// itemaction.PluginAction for one such action in one run.
//
//	plugin     one call for one object, made by package remote
//	answer     checks what came back and makes a Result of it; an operation that an
//	           answer tells of is canceled if the answer is not accepted
//	velero     annotations in which Velero's item actions talk to their server
//
// An object is sent as the JSON that is archived. The returned object replaces it only if
// it differs: an action that changes nothing costs a call and a comparison.
//
// Package external validates every answer of an action before the engine uses it. An error
// is an error of the object. The annotations are honored only if the action wrote them: the
// owner of the object must not control this. They are then not archived.
package plugin
