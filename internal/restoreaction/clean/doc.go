// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clean takes from an archived object what only its old cluster could
// know, and says which resources are never restored at all. It is pure.
//
// Taken away: of the metadata, what an API server sets (uid, resourceVersion,
// generation, creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds,
// selfLink, managedFields), generateName, because the name is known, and
// ownerReferences, because they name owners by their old UIDs: the garbage
// collector would remove the object at once. Owners that select what they own
// (ReplicaSets, StatefulSets) adopt it again by their selectors. The whole
// status goes too; restoring one is a separate step after the object exists.
//
// Kept: labels, annotations, finalizers and all else. Added: the labels
// LabelBackupName and LabelRestoreName.
package clean
