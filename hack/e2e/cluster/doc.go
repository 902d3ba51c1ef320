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
// CoreDNS as a pod; and package netpol for NetworkPolicies. They continue when the program that started them has ended. What [Up]
// changes on the machine is recorded before it is changed, so that [Down] puts it back
// from any point, also after something crashed.
//
//	layout.go      addresses and directories
//	identities.go  who has which certificate
//	components.go  the processes and their arguments
//	config.go      their configuration, from files/
//	record.go      what down needs to know
//	process.go     starting, watching and stopping the processes
//	up.go          the way up
//	ready.go       when it is ready
//	images.go      what has to be in containerd before there are pods
//	down.go        the way down
//	containers.go  the end of containers, whatever is left to end them with
//	enforce.go     what its process for NetworkPolicies does
//
// There is one cluster on a machine. Its network is one bridge with the address
// 10.98.0.1/24, and every server listens there and nowhere else. What it does not have:
// hostPort, dynamic volumes, a way out of the cluster.
//
// It needs Linux, root, and what hack/e2e/packages.sh installs. It is not for production
// code.
package cluster
