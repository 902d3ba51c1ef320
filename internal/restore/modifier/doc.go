// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package modifier changes objects before they are restored, by the rules of a ConfigMap in
// Velero's format of resource modifiers, version v1.
//
// Parse checks everything that does not depend on an object: a Restore with an invalid rule must
// fail before anything happens. Anyone who may write the ConfigMap chooses its content, so Parse
// also limits what rules can cost.
//
// Rules.Match and Rules.Apply differ from Velero where Velero's behavior would surprise:
//
//   - an object that cannot be modified is an error and not restored unmodified: what a rule
//     removes may be what must not run in this cluster;
//   - a rule cannot change apiVersion, kind, name or namespace of an object;
//   - a failed "test", also of a path that does not exist, means that the rule does not apply.
package modifier
