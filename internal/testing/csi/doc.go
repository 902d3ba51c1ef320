// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package csi runs the CSI driver of test/csidriver with the real sidecars of CSI, for tests that
// need no node: snapshot-controller, csi-snapshotter and csi-provisioner.
//
//	crds, err := csi.FindCRDs(ctx)
//	...
//	plane, err := controlplane.Start(ctx, controlplane.Options{CRDPaths: []string{crds}, ControllerManager: true})
//	...
//	stack, err := csi.Start(ctx, plane, csi.Options{})
//	...
//	defer stack.Stop()
//
// Then claims of the StorageClass [ClassName] are bound to volumes of the driver, and snapshots of
// the VolumeSnapshotClass and the VolumeGroupSnapshotClass of that name become ready. The package
// driverdir reads what the driver has, and injects faults:
//
//	snapshots, err := driverdir.List[driverdir.Snapshot](stack.Dir())
//	err = stack.Dir().SetFaults(driverdir.Faults{NeverReady: true})
//
// Programs that end are started again, as the kubelet does: the sidecars end when their driver does.
// Everything ends with [Stack.Stop], or with the program that started it.
//
// `make csi-programs` builds the sidecars.
package csi
