// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane starts a real Kubernetes API server on this machine, for
// tests, the demonstration and the benchmark.
//
// [Start] runs etcd and kube-apiserver through controller-runtime's envtest and,
// where [Options] ask for it, kube-controller-manager: only with that do
// namespaces disappear, owned objects get collected, and Deployments have
// ReplicaSets. The programs are those that `make control-plane` builds into
// bin/controlplane; nothing is downloaded.
//
// A suite starts one control plane in TestMain and gives each test a namespace:
//
//	plane, err := controlplane.Start(ctx, controlplane.Options{
//		CRDPaths:          []string{"../../config/crd/bases"},
//		ControllerManager: true,
//	})
//	...
//	defer plane.Stop()
//	c, err := client.New(plane.Config(), client.Options{})
//
// Everything listens on the loopback interface and ends with [ControlPlane.Stop],
// or with the program that started it, however that ends.
//
// It is not for production code: only tests and the programs below hack import
// it. There is no node, so no pod ever runs.
package controlplane
