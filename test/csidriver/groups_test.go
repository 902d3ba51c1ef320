// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
)

func TestGroup(t *testing.T) {
	d := startDriver(t, options{})
	a, b := d.createVolume(t, "a"), d.createVolume(t, "b")
	request := &csi.CreateVolumeGroupSnapshotRequest{Name: "g", SourceVolumeIds: []string{b, a}}
	group := call(t, d.CreateVolumeGroupSnapshot, request).GetGroupSnapshot()
	if !group.GetReadyToUse() || len(group.GetSnapshots()) != 2 {
		t.Fatalf("the group is %v", group)
	}
	d.write(t, a, "later")
	contents := map[string]string{a: "a", b: "b"}
	for _, snapshot := range group.GetSnapshots() {
		volume := snapshot.GetSourceVolumeId()
		if got := d.restore(t, snapshot.GetSnapshotId(), "of-"+volume); got != contents[volume] {
			t.Errorf("restored %q of volume %s", got, volume)
		}
		if snapshot.GetGroupSnapshotId() != group.GetGroupSnapshotId() ||
			!snapshot.GetCreationTime().AsTime().Equal(group.GetCreationTime().AsTime()) {
			t.Errorf("a member is %v", snapshot)
		}
		_, err := d.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: snapshot.GetSnapshotId()})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("deleting a member: %v", err)
		}
	}
	request.SourceVolumeIds = []string{a, b}
	if again := call(t, d.CreateVolumeGroupSnapshot, request).GetGroupSnapshot(); again.GetGroupSnapshotId() != group.GetGroupSnapshotId() ||
		!again.GetCreationTime().AsTime().Equal(group.GetCreationTime().AsTime()) {
		t.Errorf("repeated, it is another group: %v", again)
	}
	request.SourceVolumeIds = []string{a}
	if _, err := d.CreateVolumeGroupSnapshot(t.Context(), request); status.Code(err) != codes.AlreadyExists {
		t.Errorf("the same name for other volumes: %v", err)
	}
	foreign := &csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: group.GetGroupSnapshotId(), SnapshotIds: []string{"snap-of-another"}}
	if _, err := d.GetVolumeGroupSnapshot(t.Context(), foreign); status.Code(err) != codes.InvalidArgument {
		t.Errorf("reading it with a foreign member: %v", err)
	}
	deletion := &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: group.GetGroupSnapshotId(), SnapshotIds: []string{"snap-of-another"}}
	if _, err := d.DeleteVolumeGroupSnapshot(t.Context(), deletion); status.Code(err) != codes.InvalidArgument {
		t.Errorf("deleting it with a foreign member: %v", err)
	}
	deletion.SnapshotIds = nil
	for range 2 {
		call(t, d.DeleteVolumeGroupSnapshot, deletion)
		if n := count[driverdir.Snapshot](t, d.dir) + count[driverdir.Group](t, d.dir); n != 0 {
			t.Errorf("%d records are left", n)
		}
	}
}

// TestGroup_AllOrNothing: a group with one bad volume leaves no snapshot.
func TestGroup_AllOrNothing(t *testing.T) {
	d := startDriver(t, options{readyDelay: time.Hour})
	a := d.createVolume(t, "a")
	request := &csi.CreateVolumeGroupSnapshotRequest{Name: "g", SourceVolumeIds: []string{a, "vol-missing"}}
	if _, err := d.CreateVolumeGroupSnapshot(t.Context(), request); status.Code(err) != codes.NotFound {
		t.Errorf("error is %v, want that a volume is missing", err)
	}
	left, err := filepath.Glob(filepath.Join(d.options.dir, "[sg]*s", "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("%q are left, %v", left, err)
	}
	request.SourceVolumeIds = []string{a}
	group := call(t, d.CreateVolumeGroupSnapshot, request).GetGroupSnapshot()
	if group.GetReadyToUse() {
		t.Error("it is ready before its members")
	}
	if err := driverdir.Remove[driverdir.Snapshot](d.dir, group.GetSnapshots()[0].GetSnapshotId()); err != nil {
		t.Fatal(err)
	}
	_, err = d.GetVolumeGroupSnapshot(t.Context(), &csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: group.GetGroupSnapshotId()})
	if status.Code(err) != codes.NotFound {
		t.Errorf("with a lost member: %v", err)
	}
	call(t, d.DeleteVolumeGroupSnapshot, &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: group.GetGroupSnapshotId()})
}
