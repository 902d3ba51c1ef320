// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugin runs RestoreItemActions of plugins in a restore: it implements
// restoreaction.PluginAction for one such action in one run.
//
//	ResolveSelector  calls AppliesTo and compiles the answer, once
//	Matches          compares an object with that; namespaces are those of the cluster
//	Execute          one call for one object, within its deadline; checks the answer
//
// Plugins of Velero see the same as in Velero: the object after its metadata was cleaned,
// in the namespace and with the labels that it had in the backup, and the object as it was
// archived. Objects that they name, and those for which AreAdditionalItemsReady is called,
// are also in the namespaces of the backup.
//
// An action may return the object in another version or kind, but must not change its name.
// The engine checks whether the cluster serves that.
//
// Every answer of an action is validated before the engine uses it. An error is an error of
// the object, names the plugin, and is redacted. An action that no longer answers is given
// up for the rest of the run. An optional action then leaves the object unchanged, with a
// warning.
//
// Actions of both kinds, RestoreItemAction and AsyncRestoreItemAction, may return an
// operation that they started. The operation of a rejected answer is canceled at once,
// because no run would wait for it; the error has the result of the cancellation.
//
// For the calls of an action see internal/itemaction/remote.
package plugin
