// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clean removes from an archived object what is meaningful only in its old cluster,
// and lists the resources that are never restored. It has no side effects.
//
// Removed: the metadata that an API server sets (uid, resourceVersion, generation,
// creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds, selfLink,
// managedFields), generateName, because the name is known, and ownerReferences, because
// they refer to owners by their old UIDs: the garbage collector would delete the object at
// once. Owners that select their objects (ReplicaSets, StatefulSets) adopt them again by
// their selectors. The whole status is removed too; restoring it is a separate step after
// the object exists.
//
// Kept: labels, annotations, finalizers and everything else. Added: the labels
// LabelBackupName and LabelRestoreName.
package clean
