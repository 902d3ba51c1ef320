// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
)

// TestSnapshot_PointInTime: what is written after the snapshot is not in it, and what is deleted is.
func TestSnapshot_PointInTime(t *testing.T) {
	d := startDriver(t, options{})
	volume := d.createVolume(t, "old")
	snapshot := d.createSnapshot(t, "s", volume)
	d.write(t, volume, "new")
	if got := d.restore(t, snapshot.GetSnapshotId(), "first"); got != "old" {
		t.Errorf("restored %q, want old", got)
	}
	call(t, d.DeleteVolume, &csi.DeleteVolumeRequest{VolumeId: volume})
	if got := d.restore(t, snapshot.GetSnapshotId(), "second"); got != "old" {
		t.Errorf("without the volume, restored %q, want old", got)
	}
}

// TestSnapshot_Restart: a driver that starts in the same directory has the same volumes and snapshots, and
// removes what was left incomplete.
func TestSnapshot_Restart(t *testing.T) {
	first := startDriver(t, options{})
	volume := first.createVolume(t, "v")
	snapshot := first.createSnapshot(t, "s", volume)
	group := call(t, first.CreateVolumeGroupSnapshot, &csi.CreateVolumeGroupSnapshotRequest{Name: "g", SourceVolumeIds: []string{volume}})
	first.stop()
	for _, path := range []string{"snapshots/half", "volumes/half"} {
		if err := os.Mkdir(filepath.Join(first.options.dir, path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	orphan := driverdir.Snapshot{ID: "orphan", GroupID: "group-of-no-record"}
	if err := driverdir.Save(first.dir, orphan.ID, orphan); err != nil {
		t.Fatal(err)
	}
	calls, err := os.OpenFile(first.dir.CallsPath(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := calls.WriteString(`{"id":"half`); err != nil {
		t.Fatal(err)
	}
	_ = calls.Close()

	second := startDriver(t, options{dir: first.options.dir})
	if again := second.createSnapshot(t, "s", volume); again.GetSnapshotId() != snapshot.GetSnapshotId() ||
		!again.GetCreationTime().AsTime().Equal(snapshot.GetCreationTime().AsTime()) {
		t.Errorf("got another snapshot: %v, want %v", again, snapshot)
	}
	if got := second.restore(t, snapshot.GetSnapshotId(), "w"); got != "v" {
		t.Errorf("restored %q", got)
	}
	if got := call(t, second.GetVolumeGroupSnapshot, &csi.GetVolumeGroupSnapshotRequest{
		GroupSnapshotId: group.GetGroupSnapshot().GetGroupSnapshotId(),
	}); len(got.GetGroupSnapshot().GetSnapshots()) != 1 {
		t.Errorf("the group is %v", got)
	}
	for _, half := range []string{"snapshots/half", "volumes/half", "snapshots/orphan.json"} {
		if _, err := os.Stat(filepath.Join(first.options.dir, half)); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", half, err)
		}
	}
	if created, err := second.dir.LoadCalls("CreateSnapshot"); err != nil || len(created) != 2 || created[0].ID == created[1].ID {
		t.Errorf("the calls are %+v, %v", created, err)
	}
}

// TestSnapshot_ReadyDelay: a snapshot is listed before it is ready to use.
func TestSnapshot_ReadyDelay(t *testing.T) {
	d := startDriver(t, options{readyDelay: 300 * time.Millisecond})
	snapshot := d.createSnapshot(t, "s", d.createVolume(t, "v"))
	if snapshot.GetReadyToUse() {
		t.Error("it is ready at once")
	}
	request := volumeRequest("w")
	request.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: snapshot.GetSnapshotId()},
	}}
	if _, err := d.CreateVolume(t.Context(), request); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a volume is created from it: %v", err)
	}
	for deadline := time.Now().Add(10 * time.Second); !snapshot.GetReadyToUse(); {
		if time.Now().After(deadline) {
			t.Fatal("it does not become ready")
		}
		snapshot = call(t, d.GetSnapshot, &csi.GetSnapshotRequest{SnapshotId: snapshot.GetSnapshotId()}).GetSnapshot()
	}
	if err := d.dir.SetFaults(driverdir.Faults{NeverReady: true}); err != nil {
		t.Fatal(err)
	}
	list := call(t, d.ListSnapshots, &csi.ListSnapshotsRequest{SnapshotId: snapshot.GetSnapshotId()})
	if len(list.GetEntries()) != 1 || list.GetEntries()[0].GetSnapshot().GetReadyToUse() {
		t.Errorf("with the fault, it is %v", list)
	}
}

func TestFaults(t *testing.T) {
	d := startDriver(t, options{})
	volume := d.createVolume(t, "v")
	setFault := func(fault driverdir.Fault) {
		t.Helper()
		if err := d.dir.SetFaults(driverdir.Faults{Calls: map[string]driverdir.Fault{"CreateSnapshot": fault}}); err != nil {
			t.Fatal(err)
		}
	}
	request := &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: volume}

	setFault(driverdir.Fault{Code: codes.ResourceExhausted})
	if _, err := d.CreateSnapshot(t.Context(), request); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("error is %v, want the one of the fault", err)
	}
	setFault(driverdir.Fault{Hang: true})
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := d.CreateSnapshot(short, request); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("error is %v, want that it takes too long", err)
	}
	if n := count[driverdir.Snapshot](t, d.dir); n != 0 {
		t.Errorf("there are %d snapshots", n)
	}
	setFault(driverdir.Fault{Code: codes.Unavailable, AfterWork: true})
	if _, err := d.CreateSnapshot(t.Context(), request); status.Code(err) != codes.Unavailable {
		t.Errorf("error is %v, want the one of the fault", err)
	}
	if n := count[driverdir.Snapshot](t, d.dir); n != 1 {
		t.Errorf("there are %d snapshots, want the one with a lost answer", n)
	}

	setFault(driverdir.Fault{Hang: true})
	answered := make(chan error, 1)
	go func() {
		_, err := d.CreateSnapshot(t.Context(), request)
		answered <- err
	}()
	for {
		calls, err := d.dir.LoadCalls("CreateSnapshot")
		if err != nil {
			t.Fatal(err)
		}
		if last := calls[len(calls)-1]; len(calls) == 4 && last.End.IsZero() {
			break
		}
	}
	setFault(driverdir.Fault{})
	if err := <-answered; err != nil {
		t.Errorf("a call that hung until the fault was removed fails: %v", err)
	}

	snapshot := d.createSnapshot(t, "s", volume).GetSnapshotId()
	if err := driverdir.Remove[driverdir.Snapshot](d.dir, snapshot); err != nil {
		t.Fatal(err)
	}
	if _, err := d.GetSnapshot(t.Context(), &csi.GetSnapshotRequest{SnapshotId: snapshot}); status.Code(err) != codes.NotFound {
		t.Errorf("a lost snapshot: %v", err)
	}
	if list := call(t, d.ListSnapshots, &csi.ListSnapshotsRequest{SnapshotId: snapshot}); len(list.GetEntries()) != 0 {
		t.Errorf("a lost snapshot is listed: %v", list)
	}
	calls, err := d.dir.LoadCalls("CreateSnapshot")
	if err != nil {
		t.Fatal(err)
	}
	var results []string
	for _, c := range calls {
		// Whether the client or the server notices first that the time is over is a matter of luck.
		results = append(results, c.Subject+" "+strings.ReplaceAll(c.Code, codes.Canceled.String(), codes.DeadlineExceeded.String()))
	}
	if got := fmt.Sprint(results); got != "[s ResourceExhausted s DeadlineExceeded s Unavailable s OK s OK]" {
		t.Errorf("the calls are %s", got)
	}
}

// TestConcurrency: snapshots of one volume are taken in parallel, up to the limit; meanwhile it cannot be
// deleted; and a name is taken once.
func TestConcurrency(t *testing.T) {
	const limit, total = 3, 12
	d := startDriver(t, options{maxConcurrent: limit, snapshotDelay: 100 * time.Millisecond})
	volume := d.createVolume(t, "v")
	var group errgroup.Group
	for i := range total {
		group.Go(func() error {
			_, err := d.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: fmt.Sprint("s", i), SourceVolumeId: volume})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	calls, err := d.dir.LoadCalls("CreateSnapshot")
	if err != nil {
		t.Fatal(err)
	}
	if most := driverdir.MaxParallel(calls); len(calls) != total || most != limit {
		t.Errorf("%d calls, %d in parallel; want %d and %d", len(calls), most, total, limit)
	}
	if n := count[driverdir.Snapshot](t, d.dir); n != total {
		t.Errorf("there are %d snapshots, want %d", n, total)
	}
}

func TestConcurrency_SameObjects(t *testing.T) {
	d := startDriver(t, options{snapshotDelay: time.Minute})
	volume := d.createVolume(t, "v")
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	request := &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: volume}
	go func() {
		_, err := d.CreateSnapshot(ctx, request)
		answered <- err
	}()
	var calls []driverdir.Call
	for len(calls) == 0 {
		var err error
		if calls, err = d.dir.LoadCalls("CreateSnapshot"); err != nil {
			t.Fatal(err)
		}
	}
	// The call is logged before it has its locks.
	code := codes.OK
	for code != codes.Aborted && t.Context().Err() == nil {
		short, cancelShort := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := d.CreateSnapshot(short, request)
		cancelShort()
		code = status.Code(err)
	}
	if _, err := d.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: volume}); status.Code(err) != codes.Aborted {
		t.Errorf("deleting the volume meanwhile: %v", err)
	}
	cancel()
	if err := <-answered; status.Code(err) != codes.Canceled {
		t.Errorf("error is %v, want that it was canceled", err)
	}
	for {
		_, err := d.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: volume})
		if err == nil {
			break
		}
		if status.Code(err) != codes.Aborted {
			t.Fatal(err)
		}
	}
	if n := count[driverdir.Snapshot](t, d.dir); n != 0 {
		t.Errorf("the canceled call has left %d snapshots", n)
	}
}
