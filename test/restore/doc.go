// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restore tests Restores with the operator, run as a process
// against a real API server, and checks what a user would see: the phase and its
// message, the objects in the cluster, HookRuns, metrics and the files in the store.
//
// Nearly every test backs up a namespace with ConfigMaps and restores it into another
// one; some put a backup of Velero or of an attacker into the location (bucket_test.go,
// testdata).
// All tests share a control plane and the Plugins of plugins_test.go, whose actions
// run only for runs that select them with a label. The restore of an object with a
// label can be delayed as long as a test needs (gate_test.go), so that tests of
// the middle of a Restore are deterministic.
package restore
