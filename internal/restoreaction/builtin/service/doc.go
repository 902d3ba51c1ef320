// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package service gives a Service the addresses of its new cluster.
//
// Removed: cluster IPs (None stays: a headless Service is one by choice), node
// ports and the health check node port that Kubernetes chose, and IP families
// that nobody stated, because this cluster may not have them. Ports and families
// that somebody stated stay: what is stated is found in what `kubectl apply`
// last applied and in who set which field (managedFields). With
// preserveNodePorts all node ports stay. The policy for IP families stays.
//
// The finalizer of the load balancer goes: the controller that makes a load
// balancer sets it, and without such a controller nobody would remove it.
package service
