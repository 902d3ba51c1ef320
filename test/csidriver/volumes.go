// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
)

const defaultCapacity = 1 << 30

// ControllerGetCapabilities implements the service Controller.
func (d *driver) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	response := &csi.ControllerGetCapabilitiesResponse{}
	capabilities := []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
	}
	if !d.lacks(capabilitySnapshots) {
		capabilities = append(capabilities, csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT)
	}
	if !d.lacks(capabilitySnapshots) && !d.lacks(capabilityListSnapshots) {
		capabilities = append(capabilities, csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS, csi.ControllerServiceCapability_RPC_GET_SNAPSHOT)
	}
	for _, rpc := range capabilities {
		response.Capabilities = append(response.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: rpc}},
		})
	}
	return response, nil
}

// CreateVolume implements the service Controller: an empty directory that all can write to, or a
// copy of a snapshot.
func (d *driver) CreateVolume(ctx context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if request.GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume has no name")
	}
	if reason := findUnsupported(request.GetVolumeCapabilities()); reason != "" {
		return nil, status.Error(codes.InvalidArgument, reason)
	}
	source := request.GetVolumeContentSource()
	if source.GetVolume() != nil {
		return nil, status.Error(codes.InvalidArgument, "a volume cannot be cloned: create it from a snapshot")
	}
	volume := driverdir.Volume{
		ID: newID("vol", request.GetName()), Name: request.GetName(), Created: time.Now(),
		SnapshotID: source.GetSnapshot().GetSnapshotId(),
	}
	var read []string
	if source.GetSnapshot() != nil {
		read = append(read, volume.SnapshotID)
	}
	release, err := d.locks.acquire([]string{volume.ID}, read)
	if err != nil {
		return nil, err
	}
	defer release()
	existing, found, err := driverdir.Load[driverdir.Volume](d.dir, volume.ID)
	if err != nil {
		return nil, err
	}
	if found {
		if !hasCapacity(existing.CapacityBytes, request.GetCapacityRange()) || existing.SnapshotID != volume.SnapshotID {
			return nil, status.Errorf(codes.AlreadyExists, "volume %s exists with another capacity or source", volume.Name)
		}
		return &csi.CreateVolumeResponse{Volume: asVolume(existing)}, nil
	}
	if volume.CapacityBytes, err = d.fillVolume(ctx, volume.ID, request); err == nil {
		err = driverdir.Save(d.dir, volume.ID, volume)
	}
	if err != nil {
		_ = driverdir.Remove[driverdir.Volume](d.dir, volume.ID)
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: asVolume(volume)}, nil
}

// fillVolume creates the data of a volume and returns its capacity.
func (d *driver) fillVolume(ctx context.Context, id string, request *csi.CreateVolumeRequest) (int64, error) {
	capacity := request.GetCapacityRange().GetRequiredBytes()
	if capacity == 0 {
		capacity = defaultCapacity
		if limit := request.GetCapacityRange().GetLimitBytes(); limit > 0 {
			capacity = min(capacity, limit)
		}
	}
	path := driverdir.DataPath[driverdir.Volume](d.dir, id)
	if err := os.RemoveAll(path); err != nil {
		return 0, err
	}
	source := request.GetVolumeContentSource().GetSnapshot()
	if source == nil {
		// Without the umask: a pod may run as any user.
		if err := os.Mkdir(path, 0o777); err != nil {
			return 0, err
		}
		return capacity, os.Chmod(path, 0o777)
	}
	snapshot, err := d.loadSnapshot(source.GetSnapshotId())
	if err != nil {
		return 0, err
	}
	if ready, err := d.isReady(snapshot); err != nil || !ready {
		return 0, status.Errorf(codes.FailedPrecondition, "snapshot %s is not ready to use", snapshot.ID)
	}
	if request.GetCapacityRange().GetRequiredBytes() == 0 {
		capacity = snapshot.CapacityBytes
	}
	if capacity < snapshot.CapacityBytes {
		return 0, status.Errorf(codes.OutOfRange, "the snapshot needs a capacity of %d bytes", snapshot.CapacityBytes)
	}
	return capacity, copyTree(ctx, driverdir.DataPath[driverdir.Snapshot](d.dir, snapshot.ID), path)
}

// DeleteVolume implements the service Controller.
func (d *driver) DeleteVolume(_ context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	id := request.GetVolumeId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "the request names no volume")
	}
	release, err := d.locks.acquire([]string{id}, nil)
	if err != nil {
		return nil, err
	}
	defer release()
	_, found, err := driverdir.Load[driverdir.Volume](d.dir, id)
	if err == nil && found {
		err = driverdir.Remove[driverdir.Volume](d.dir, id)
	}
	if err != nil {
		return nil, err
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// ListVolumes implements the service Controller.
func (d *driver) ListVolumes(_ context.Context, request *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	volumes, err := driverdir.List[driverdir.Volume](d.dir)
	if err != nil {
		return nil, err
	}
	page, next, err := pageOf(volumes, request.GetStartingToken(), request.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	response := &csi.ListVolumesResponse{NextToken: next}
	for _, volume := range page {
		response.Entries = append(response.Entries, &csi.ListVolumesResponse_Entry{Volume: asVolume(volume)})
	}
	return response, nil
}

// ValidateVolumeCapabilities implements the service Controller.
func (d *driver) ValidateVolumeCapabilities(
	_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if request.GetVolumeId() == "" || len(request.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a volume or capabilities")
	}
	if _, err := d.loadVolume(request.GetVolumeId()); err != nil {
		return nil, err
	}
	if reason := findUnsupported(request.GetVolumeCapabilities()); reason != "" {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: reason}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: request.GetVolumeContext(), VolumeCapabilities: request.GetVolumeCapabilities(),
		Parameters: request.GetParameters(),
	}}, nil
}

// findUnsupported returns why a volume cannot have the capabilities, or "".
func findUnsupported(capabilities []*csi.VolumeCapability) string {
	if len(capabilities) == 0 {
		return "the request has no capability"
	}
	for _, capability := range capabilities {
		if capability.GetMount() == nil && capability.GetBlock() == nil {
			return "the capability is neither a mount nor a block volume"
		}
		if mode := capability.GetAccessMode().GetMode(); mode == csi.VolumeCapability_AccessMode_UNKNOWN ||
			mode >= csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER {
			return fmt.Sprintf("the access mode %s is not supported", mode)
		}
	}
	return ""
}

func hasCapacity(capacity int64, wanted *csi.CapacityRange) bool {
	return capacity >= wanted.GetRequiredBytes() && (wanted.GetLimitBytes() == 0 || capacity <= wanted.GetLimitBytes())
}

func asVolume(volume driverdir.Volume) *csi.Volume {
	result := &csi.Volume{VolumeId: volume.ID, CapacityBytes: volume.CapacityBytes}
	if volume.SnapshotID != "" {
		result.ContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: volume.SnapshotID},
		}}
	}
	return result
}

func (d *driver) loadVolume(id string) (driverdir.Volume, error) {
	volume, found, err := driverdir.Load[driverdir.Volume](d.dir, id)
	if err == nil && !found {
		err = status.Errorf(codes.NotFound, "there is no volume %q", id)
	}
	return volume, err
}
