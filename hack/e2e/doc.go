// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// E2e is a throw-away Kubernetes cluster of one node, on this machine and without a
// container engine, for end-to-end tests:
//
//	hack/e2e/packages.sh && make e2e-programs     # once, as root
//	go run ./hack/e2e up
//	export KUBECONFIG=$PWD/bin/e2e/kubeconfig
//	go run ./hack/e2e image grapnel grapnel.tar && go run ./hack/e2e load grapnel.tar
//	go run ./hack/e2e down
//
// `make e2e` does all of it around test/e2e. Pods, logs, exec, Jobs, Services, names,
// volumes, webhooks and NetworkPolicies are real; package cluster lists what is missing.
//
//	cluster/    brings it up and down
//	image/      packs images; the ones that tests need
//	debian/     unpacks packages of the distribution, for images
//	smoke/      checks that the cluster works
//	pki/        certificates
//	proc/       processes that outlive the program that started them
//	host/       changes of the machine, and their removal
//	netpol/     NetworkPolicies
//	endpoints/  endpoints that Plugins call
//	pause/      the program of the image that every pod needs
//	coredns/    the name server, in its own module
package main
