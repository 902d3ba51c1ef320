// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane starts a real Kubernetes API server on this machine, for
// tests, the demonstration and the benchmark.
//
// [Start] runs etcd and kube-apiserver through controller-runtime's envtest and, if
// requested in [Options], kube-controller-manager: only then are namespaces deleted, owned
// objects garbage-collected, and ReplicaSets created for Deployments. `make control-plane`
// builds the programs into bin/controlplane; nothing is downloaded. [BinaryDirVariable] names those
// of another version.
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
// Everything listens on the loopback interface and ends with [ControlPlane.Stop], or with
// the program that started it, even if that is killed.
//
// It is not for production code: only tests and the programs below hack and test import it. There is
// no node, so no Pod ever runs.
package controlplane
