// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
)

// CreateSnapshot implements the service Controller: it copies the volume.
func (d *driver) CreateSnapshot(ctx context.Context, request *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if request.GetName() == "" || request.GetSourceVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a name or a volume")
	}
	id := newID("snap", request.GetName())
	release, err := d.locks.acquire([]string{id}, []string{request.GetSourceVolumeId()})
	if err != nil {
		return nil, err
	}
	defer release()
	snapshot, found, err := driverdir.Load[driverdir.Snapshot](d.dir, id)
	if err != nil {
		return nil, err
	}
	if found && snapshot.VolumeID != request.GetSourceVolumeId() {
		return nil, status.Errorf(codes.AlreadyExists, "snapshot %s exists, of another volume", snapshot.Name)
	}
	if !found {
		snapshot = driverdir.Snapshot{ID: id, Name: request.GetName(), VolumeID: request.GetSourceVolumeId(), Created: d.now()}
		if err := d.takeSnapshots(ctx, []*driverdir.Snapshot{&snapshot}); err != nil {
			return nil, err
		}
	}
	result, err := d.asSnapshot(snapshot)
	if err != nil {
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: result}, nil
}

// takeSnapshots copies the volumes of the snapshots and records the snapshots; if it fails, there
// are none.
func (d *driver) takeSnapshots(ctx context.Context, snapshots []*driverdir.Snapshot) (err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, snapshot := range snapshots {
			_ = driverdir.Remove[driverdir.Snapshot](d.dir, snapshot.ID)
		}
	}()
	for _, snapshot := range snapshots {
		volume, err := d.loadVolume(snapshot.VolumeID)
		if err != nil {
			return err
		}
		snapshot.CapacityBytes = volume.CapacityBytes
		target := driverdir.DataPath[driverdir.Snapshot](d.dir, snapshot.ID)
		if err := os.RemoveAll(target); err != nil {
			return err
		}
		if err := copyTree(ctx, driverdir.DataPath[driverdir.Volume](d.dir, volume.ID), target); err != nil {
			return err
		}
	}
	if err := waitFor(ctx, d.options.snapshotDelay); err != nil {
		return err
	}
	ready := time.Now().Add(d.options.readyDelay)
	for _, snapshot := range snapshots {
		snapshot.ReadyAt = ready
		if err := driverdir.Save(d.dir, snapshot.ID, *snapshot); err != nil {
			return err
		}
	}
	return nil
}

// DeleteSnapshot implements the service Controller.
func (d *driver) DeleteSnapshot(_ context.Context, request *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	id := request.GetSnapshotId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "the request names no snapshot")
	}
	release, err := d.locks.acquire([]string{id}, nil)
	if err != nil {
		return nil, err
	}
	defer release()
	snapshot, found, err := driverdir.Load[driverdir.Snapshot](d.dir, id)
	if err == nil && found {
		if snapshot.GroupID != "" {
			return nil, status.Errorf(codes.InvalidArgument, "snapshot %s belongs to group %s: delete the group", id, snapshot.GroupID)
		}
		err = driverdir.Remove[driverdir.Snapshot](d.dir, id)
	}
	if err != nil {
		return nil, err
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

// ListSnapshots implements the service Controller.
func (d *driver) ListSnapshots(_ context.Context, request *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	var snapshots []driverdir.Snapshot
	var err error
	if id := request.GetSnapshotId(); id != "" {
		snapshot, found, loadErr := driverdir.Load[driverdir.Snapshot](d.dir, id)
		if err = loadErr; found {
			snapshots = append(snapshots, snapshot)
		}
	} else {
		snapshots, err = driverdir.List[driverdir.Snapshot](d.dir)
	}
	if err != nil {
		return nil, err
	}
	var matching []driverdir.Snapshot
	for _, snapshot := range snapshots {
		if volume := request.GetSourceVolumeId(); volume == "" || volume == snapshot.VolumeID {
			matching = append(matching, snapshot)
		}
	}
	page, next, err := pageOf(matching, request.GetStartingToken(), request.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	response := &csi.ListSnapshotsResponse{NextToken: next}
	for _, snapshot := range page {
		result, err := d.asSnapshot(snapshot)
		if err != nil {
			return nil, err
		}
		response.Entries = append(response.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: result})
	}
	return response, nil
}

// GetSnapshot implements the service Controller.
func (d *driver) GetSnapshot(_ context.Context, request *csi.GetSnapshotRequest) (*csi.GetSnapshotResponse, error) {
	if request.GetSnapshotId() == "" {
		return nil, status.Error(codes.InvalidArgument, "the request names no snapshot")
	}
	snapshot, err := d.loadSnapshot(request.GetSnapshotId())
	if err != nil {
		return nil, err
	}
	result, err := d.asSnapshot(snapshot)
	if err != nil {
		return nil, err
	}
	return &csi.GetSnapshotResponse{Snapshot: result}, nil
}

func (d *driver) loadSnapshot(id string) (driverdir.Snapshot, error) {
	snapshot, found, err := driverdir.Load[driverdir.Snapshot](d.dir, id)
	if err == nil && !found {
		err = status.Errorf(codes.NotFound, "there is no snapshot %q", id)
	}
	return snapshot, err
}

func (d *driver) isReady(snapshot driverdir.Snapshot) (bool, error) {
	faults, err := d.dir.LoadFaults()
	return err == nil && !faults.NeverReady && !time.Now().Before(snapshot.ReadyAt), err
}

func (d *driver) asSnapshot(snapshot driverdir.Snapshot) (*csi.Snapshot, error) {
	ready, err := d.isReady(snapshot)
	return &csi.Snapshot{
		SnapshotId: snapshot.ID, SourceVolumeId: snapshot.VolumeID, GroupSnapshotId: snapshot.GroupID,
		SizeBytes: snapshot.CapacityBytes, CreationTime: timestamppb.New(snapshot.Created), ReadyToUse: ready,
	}, err
}
