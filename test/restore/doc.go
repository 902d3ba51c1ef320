// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restore tells the stories of a Restore to the operator, run as a process
// against a real API server, and checks what a user would see: the phase and its
// message, the objects in the cluster, HookRuns, metrics and the files in the store.
//
// Nearly every story backs up a namespace with ConfigMaps and restores it into another
// one; some put a backup into the location that Velero or an enemy made (bucket_test.go,
// testdata).
// All tests share a control plane and the Plugins of plugins_test.go, whose actions
// run only for those that ask for them with a label. The restore of an object with a
// label can be held as long as a test wants (gate_test.go), so that what happens in
// the middle of a Restore needs no luck.
package restore
