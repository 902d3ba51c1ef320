// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster brings up a throw-away Kubernetes cluster of one node on this machine,
// without a container engine or a download, and takes it down again.
//
//	err := cluster.Up(ctx, root, os.Stdout)   // its kubeconfig is bin/e2e/kubeconfig
//	err = cluster.Load(ctx, "image.tar")
//	err = cluster.Down(ctx, root, os.Stdout)
//
// The processes are those of a real cluster: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kubelet, kube-proxy and containerd, with
// CoreDNS as a pod; and package netpol for NetworkPolicies. They keep running when the program that
// started them has ended. What [Up] changes on the machine is recorded before it is changed, so that
// [Down] restores it from any point, even after a crash.
//
//	layout.go      addresses and directories
//	identities.go  who has which certificate
//	components.go  the processes and their arguments
//	config.go      their configuration, from files/
//	record.go      what down needs
//	process.go     starting, watching and stopping the processes
//	up.go          bringing the cluster up
//	ready.go       readiness
//	images.go      what must be in containerd before the first pod
//	down.go        taking the cluster down
//	containers.go  stopping containers, with whatever is still running
//	enforce.go     what its process for NetworkPolicies does
//
// There is one cluster on a machine. Its network is one bridge with the address
// 10.98.0.1/24, and every server listens only there. It does not have
// hostPort, dynamic volumes, or egress from the cluster.
//
// It needs Linux, root, and what test/node/packages.sh installs. It is not for production
// code.
package cluster
