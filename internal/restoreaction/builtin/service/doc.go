// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package service gives a Service the addresses of its new cluster.
//
// Removed: cluster IPs (except None: headless Services are deliberate), node ports and the
// health check node port that Kubernetes allocated, and IP families that no user set,
// because this cluster may not have them. Ports and families that a user set are kept;
// these are found in the last applied configuration of `kubectl apply` and in
// managedFields. With preserveNodePorts, all node ports are kept. The policy for IP
// families is kept.
//
// The finalizer of the load balancer is removed: the controller that creates load balancers
// sets it, and without such a controller it would never be removed.
package service
