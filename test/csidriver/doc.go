// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Csidriver is a CSI driver for tests on one machine: a volume is a directory, and a snapshot is a
// copy of it.
//
// It serves the services Identity, Controller, GroupController and Node of CSI. All state is in
// its directory, so that it survives a restart; package driverdir describes it, and how tests
// inject faults, count calls, and remove what a storage system would lose. A capacity is
// recorded, and not enforced. Block volumes are directories, too, and cannot be published. Clones and
// topology are not supported.
//
// The other packages of tests run it through internal/testing/csi, and test/node on its node.
package main
