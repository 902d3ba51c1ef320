// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests Grapnel in a real cluster, with real pods: it installs what
// config/ has, runs the tests that need a kubelet, and removes everything again.
//
//	make e2e                                brings up a cluster of one node for it
//	KUBECONFIG=… E2E_LOAD=… go test -v .    in an existing cluster
//
// E2E_LOAD is a command that puts images on the nodes, like "kind load image-archive": those
// of busybox, PostgreSQL and Grapnel, which test/node builds. The cluster must not have
// Grapnel. Without KUBECONFIG, nothing runs. Where NetworkPolicies are not enforced, skip
// their test: -ginkgo.label-filter='!network-policies'.
//
//	suite_test.go      the order of everything, installation, what is reported about a failure
//	cluster_test.go    how the cluster is reached
//	runs_test.go       Backups, Restores and HookRuns, and how they are waited for
//	workloads_test.go  what runs in the cluster besides Grapnel
//	*_test.go          one test each
//
// The package browser, which make e2e runs too, needs Chromium and no cluster.
package e2e
