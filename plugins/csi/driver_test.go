// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/testing/csi"
	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
)

// restartDriver restarts the driver with other options, until the end of the test. Its sidecars end and start with it.
func (w *world) restartDriver(opts csi.Options) {
	w.Helper()
	restart := func(ctx context.Context, opts csi.Options) error {
		return errors.Join(stack.StopProgram(csi.Driver), stack.StopProgram(csi.Snapshotter), stack.StopProgram(csi.Provisioner),
			stack.StartDriver(ctx, opts), stack.StartSidecar(csi.Snapshotter), stack.StartSidecar(csi.Provisioner))
	}
	w.must(restart(w.Context(), opts))
	w.Cleanup(func() { w.must(restart(context.WithoutCancel(w.Context()), csi.Options{})) })
}

// removeClasses removes the classes of the driver for snapshots and groups, until the end of the test.
func (w *world) removeClasses(alsoSnapshots bool) {
	w.Helper()
	groups, snapshots := w.snapshots.GroupsnapshotV1().VolumeGroupSnapshotClasses(), w.snapshots.SnapshotV1().VolumeSnapshotClasses()
	group, err := groups.Get(w.Context(), csi.ClassName, metav1.GetOptions{})
	w.must(err)
	class, err := snapshots.Get(w.Context(), csi.ClassName, metav1.GetOptions{})
	w.must(err)
	group.ResourceVersion, class.ResourceVersion = "", ""
	ctx := context.WithoutCancel(w.Context())
	w.must(groups.Delete(ctx, csi.ClassName, metav1.DeleteOptions{}))
	w.Cleanup(func() {
		_, err := groups.Create(ctx, group, metav1.CreateOptions{})
		w.must(err)
	})
	if alsoSnapshots {
		w.must(snapshots.Delete(ctx, csi.ClassName, metav1.DeleteOptions{}))
		w.Cleanup(func() {
			_, err := snapshots.Create(ctx, class, metav1.CreateOptions{})
			w.must(err)
		})
	}
}

// restoreInto restores a claim into a namespace, and returns the restored one.
func (w *world) restoreInto(b backedUp, namespace string) *corev1.PersistentVolumeClaim {
	w.Helper()
	started, err := w.startRestore(b, namespace)
	w.must(err)
	w.createRestored(started, namespace)
	w.awaitRestored(started, "the claim is restored", isCompleted)
	w.wantNoLeftovers(started)
	return w.awaitBound(namespace, b.claim.GetName())
}

func (w *world) wantData(claim *corev1.PersistentVolumeClaim, want string) {
	w.Helper()
	if data, err := os.ReadFile(w.dataPath(claim)); err != nil || string(data) != want {
		w.Errorf("the volume of %s has %q, %v; want %q", claim.Name, data, err, want)
	}
}

// TestDriver_WithoutGroupSnapshots captures the claims of a group separately.
func TestDriver_WithoutGroupSnapshots(t *testing.T) {
	w := newWorld(t)
	w.restartDriver(csi.Options{Without: []csi.Capability{csi.GroupSnapshots}})
	w.removeClasses(false)
	started := w.captureGroup(w.createVolume("a", inGroup(defaultGroupLabel)), w.createVolume("b", inGroup(defaultGroupLabel)))
	for _, one := range started {
		w.awaitProgress(one, "it is ready", isCompleted)
	}
	wantContains(t, "the warning", w.progress(started[0]).Warning,
		"captured separately: there is no VolumeGroupSnapshotClass of the CSI driver "+csi.DriverName)
}

// TestDriver_WithoutListSnapshots captures, restores and deletes with a driver that cannot list snapshots.
func TestDriver_WithoutListSnapshots(t *testing.T) {
	w := newWorld(t)
	w.restartDriver(csi.Options{Without: []csi.Capability{csi.ListSnapshots, csi.GroupSnapshots}})
	claim := w.createVolume("data")
	handle := w.handleOfItem(claim)
	b := w.backUp(claim)
	w.wantData(w.restoreInto(b, w.createNamespace()), "data")
	w.forgetObjects(b.content)
	w.must(w.deleteArchived(b.content))
	if n := w.driverSnapshots(handle); n != 0 {
		t.Errorf("the driver has %d snapshots, want none", n)
	}
}

// TestDriver_WithoutSnapshots reports all claims of a driver that cannot take snapshots, with one cause.
func TestDriver_WithoutSnapshots(t *testing.T) {
	w := newWorld(t)
	w.restartDriver(csi.Options{Without: []csi.Capability{csi.Snapshots, csi.GroupSnapshots}})
	w.removeClasses(true)
	for _, started := range w.captureGroup(w.createVolume("a"), w.createVolume("b")) {
		const want = "there is no VolumeSnapshotClass of the CSI driver " + csi.DriverName + ": create one if the driver can take snapshots, " +
			"or protect its volumes by other means"
		if started.DataNotCaptured != want || started.OperationID != "" {
			t.Errorf("the answer is %+v, want the reason %q", started, want)
		}
	}
}

// TestDriver_Clock captures and restores if the clock of the storage is wrong.
func TestDriver_Clock(t *testing.T) {
	for name, skew := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.restartDriver(csi.Options{ClockSkew: skew})
			begin := time.Now()
			claims := []*unstructured.Unstructured{
				w.createVolume("a", inGroup(defaultGroupLabel)), w.createVolume("b", inGroup(defaultGroupLabel)), w.createVolume("c"),
			}
			for _, started := range w.captureGroup(claims...) {
				progress := w.awaitProgress(started, "it is ready", isCompleted)
				if progress.Started.Before(begin.Add(-time.Second)) || progress.Started.After(time.Now()) {
					t.Errorf("it is said to have started at %s", progress.Started)
				}
			}
			w.wantData(w.restoreInto(w.backUp(claims[2]), w.createNamespace()), "c")
		})
	}
}

// TestBlockVolume captures and restores a claim with the mode Block, and does not change that.
func TestBlockVolume(t *testing.T) {
	w := newWorld(t)
	block := corev1.PersistentVolumeBlock
	b := w.backUp(w.createVolume("data", func(claim *corev1.PersistentVolumeClaim) { claim.Spec.VolumeMode = &block }))
	restored := w.restoreInto(b, w.createNamespace())
	w.wantData(restored, "data")
	volume, err := w.core.CoreV1().PersistentVolumes().Get(t.Context(), restored.Spec.VolumeName, metav1.GetOptions{})
	w.must(err)
	if *restored.Spec.VolumeMode != block || *volume.Spec.VolumeMode != block {
		t.Errorf("the modes are %s and %s, want Block", *restored.Spec.VolumeMode, *volume.Spec.VolumeMode)
	}
}

// TestSidecars_LeaderChange kills the leading csi-snapshotter while the driver takes snapshots: each is taken once.
func TestSidecars_LeaderChange(t *testing.T) {
	w := newWorld(t)
	const claims = 10
	var items []*unstructured.Unstructured
	var handles []string
	for i := range claims {
		claim := w.createVolume(fmt.Sprint("data-", i))
		items, handles = append(items, claim), append(handles, w.handleOfItem(claim))
	}
	w.must(errors.Join(stack.StopProgram(csi.Snapshotter), stack.StartReplicas()))
	t.Cleanup(func() {
		w.must(errors.Join(stack.StopProgram(csi.Snapshotter), stack.StopProgram(csi.SnapshotterReplica), stack.StartSidecar(csi.Snapshotter)))
	})
	w.setFaults(driverdir.Faults{Calls: map[string]driverdir.Fault{"CreateSnapshot": {Hang: true, AfterWork: true}}})
	started := w.captureGroup(items...)
	w.eventually("the driver takes snapshots", func() bool { return w.driverSnapshots(handles...) >= claims/2 })
	leader := w.snapshotterLeader()
	w.must(errors.Join(stack.KillProgram(leader), stack.StopProgram(leader)))
	w.setFaults(driverdir.Faults{})
	for _, one := range started {
		w.awaitProgress(one, "it is ready", isCompleted)
	}
	if now := w.snapshotterLeader(); now == leader {
		t.Errorf("%s still leads", now)
	}
	if n := w.driverSnapshots(handles...); n != claims {
		t.Errorf("the driver has %d snapshots, want %d", n, claims)
	}
}

// snapshotterLeader returns the csi-snapshotter that leads.
func (w *world) snapshotterLeader() csi.Program {
	w.Helper()
	lease, err := w.core.CoordinationV1().Leases("default").Get(w.Context(), csi.ReplicaLease, metav1.GetOptions{})
	w.must(err)
	return csi.Program(*lease.Spec.HolderIdentity)
}
