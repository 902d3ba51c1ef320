// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Node is a throw-away Kubernetes cluster of one node, on this machine and without a
// container engine, for end-to-end tests. README.md says how it is used, and what it needs
// and lacks.
//
//	cluster/    brings it up and down
//	images/     the images that tests need
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
