// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pod makes Pods acceptable to another cluster, and skips those that must not be
// restored.
//
// Skipped: Pods that ended (Succeeded, Failed), mirrors of static Pods, which the kubelet
// creates, and Pods of a DaemonSet or a Job that is in the archive too. A DaemonSet creates
// one for each node of this cluster. A restored Job creates its own Pods and would not
// adopt this one, so its work would be done twice. Pods of all other owners are restored:
// ReplicaSets, ReplicationControllers and StatefulSets adopt them by their selectors
// instead of creating new ones.
//
// Removed: the node; what admission computes (priority, preemptionPolicy, overhead),
// because a different value is rejected; ephemeral containers, which cannot be set on
// creation; and the volume with the token of the ServiceAccount that admission had added,
// with its mounts, because admission adds it again. That volume is kept if a container
// mounts it at a path of its own choice.
package pod
