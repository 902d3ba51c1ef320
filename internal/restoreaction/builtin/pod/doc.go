// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pod makes Pods acceptable to another cluster, and leaves out those
// that must not come back.
//
// Left out: Pods that ended (Succeeded, Failed), mirrors of static Pods, which
// the kubelet makes, and Pods of a DaemonSet or a Job that is in the archive
// too: a DaemonSet makes one for each node of this cluster, and a restored Job
// does its work with Pods of its own and would not take this one, so that the
// work would be done twice. Pods of all other owners are restored: ReplicaSets,
// ReplicationControllers and StatefulSets adopt them by their selectors instead
// of making new ones.
//
// Removed: the node, what admission computes (priority, preemptionPolicy,
// overhead: a value that differs is refused), ephemeral containers, which
// cannot be set on creation, and the volume with the token of the
// ServiceAccount that admission had added, with its mounts: it is added anew.
// That volume stays if a container mounts it at a place of its own choice.
package pod
