// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
)

// GroupControllerGetCapabilities implements the service GroupController.
func (d *driver) GroupControllerGetCapabilities(
	context.Context, *csi.GroupControllerGetCapabilitiesRequest,
) (*csi.GroupControllerGetCapabilitiesResponse, error) {
	if d.lacks(capabilityGroupSnapshots) {
		return &csi.GroupControllerGetCapabilitiesResponse{}, nil
	}
	return &csi.GroupControllerGetCapabilitiesResponse{Capabilities: []*csi.GroupControllerServiceCapability{{
		Type: &csi.GroupControllerServiceCapability_Rpc{Rpc: &csi.GroupControllerServiceCapability_RPC{
			Type: csi.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT,
		}},
	}}}, nil
}

// CreateVolumeGroupSnapshot implements the service GroupController. No volume can be deleted
// meanwhile, but pods can write between the copies of two volumes.
func (d *driver) CreateVolumeGroupSnapshot(
	ctx context.Context, request *csi.CreateVolumeGroupSnapshotRequest,
) (*csi.CreateVolumeGroupSnapshotResponse, error) {
	volumes := slices.Clone(request.GetSourceVolumeIds())
	slices.Sort(volumes)
	volumes = slices.Compact(volumes)
	if request.GetName() == "" || len(volumes) == 0 {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a name or volumes")
	}
	group := driverdir.Group{ID: newID("group", request.GetName()), Name: request.GetName(), VolumeIDs: volumes, Created: d.now()}
	for _, volume := range volumes {
		group.SnapshotIDs = append(group.SnapshotIDs, newID("snap", group.Name+"/"+volume))
	}
	release, err := d.locks.acquire(append([]string{group.ID}, group.SnapshotIDs...), volumes)
	if err != nil {
		return nil, err
	}
	defer release()
	existing, found, err := driverdir.Load[driverdir.Group](d.dir, group.ID)
	switch {
	case err != nil:
		return nil, err
	case found && !slices.Equal(existing.VolumeIDs, volumes):
		return nil, status.Errorf(codes.AlreadyExists, "group %s exists, of other volumes", group.Name)
	case found:
		group = existing
	default:
		if err := d.takeGroup(ctx, group); err != nil {
			return nil, err
		}
	}
	result, err := d.asGroup(group)
	if err != nil {
		return nil, err
	}
	return &csi.CreateVolumeGroupSnapshotResponse{GroupSnapshot: result}, nil
}

func (d *driver) takeGroup(ctx context.Context, group driverdir.Group) error {
	var snapshots []*driverdir.Snapshot
	for i, id := range group.SnapshotIDs {
		snapshots = append(snapshots, &driverdir.Snapshot{
			ID: id, Name: group.Name + "/" + group.VolumeIDs[i], VolumeID: group.VolumeIDs[i], GroupID: group.ID, Created: group.Created,
		})
	}
	if err := d.takeSnapshots(ctx, snapshots); err != nil {
		return err
	}
	return driverdir.Save(d.dir, group.ID, group)
}

// DeleteVolumeGroupSnapshot implements the service GroupController.
func (d *driver) DeleteVolumeGroupSnapshot(
	_ context.Context, request *csi.DeleteVolumeGroupSnapshotRequest,
) (*csi.DeleteVolumeGroupSnapshotResponse, error) {
	id := request.GetGroupSnapshotId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "the request names no group")
	}
	group, found, err := driverdir.Load[driverdir.Group](d.dir, id)
	if err != nil {
		return nil, err
	}
	if !found {
		return &csi.DeleteVolumeGroupSnapshotResponse{}, nil
	}
	if err := checkMembers(group, request.GetSnapshotIds()); err != nil {
		return nil, err
	}
	release, err := d.locks.acquire(append([]string{id}, group.SnapshotIDs...), nil)
	if err != nil {
		return nil, err
	}
	defer release()
	// The group last: a call that is repeated finds the other members by it.
	for _, snapshot := range group.SnapshotIDs {
		if err := driverdir.Remove[driverdir.Snapshot](d.dir, snapshot); err != nil {
			return nil, err
		}
	}
	if err := driverdir.Remove[driverdir.Group](d.dir, id); err != nil {
		return nil, err
	}
	return &csi.DeleteVolumeGroupSnapshotResponse{}, nil
}

// GetVolumeGroupSnapshot implements the service GroupController.
func (d *driver) GetVolumeGroupSnapshot(
	_ context.Context, request *csi.GetVolumeGroupSnapshotRequest,
) (*csi.GetVolumeGroupSnapshotResponse, error) {
	id := request.GetGroupSnapshotId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "the request names no group")
	}
	group, found, err := driverdir.Load[driverdir.Group](d.dir, id)
	if err == nil && !found {
		err = status.Errorf(codes.NotFound, "there is no group %q", id)
	}
	if err == nil {
		err = checkMembers(group, request.GetSnapshotIds())
	}
	if err != nil {
		return nil, err
	}
	result, err := d.asGroup(group)
	if err != nil {
		return nil, err
	}
	return &csi.GetVolumeGroupSnapshotResponse{GroupSnapshot: result}, nil
}

func checkMembers(group driverdir.Group, ids []string) error {
	for _, id := range ids {
		if !slices.Contains(group.SnapshotIDs, id) {
			return status.Errorf(codes.InvalidArgument, "snapshot %s does not belong to group %s", id, group.ID)
		}
	}
	return nil
}

// asGroup fails if a member is lost.
func (d *driver) asGroup(group driverdir.Group) (*csi.VolumeGroupSnapshot, error) {
	result := &csi.VolumeGroupSnapshot{GroupSnapshotId: group.ID, CreationTime: timestamppb.New(group.Created), ReadyToUse: true}
	for _, id := range group.SnapshotIDs {
		record, err := d.loadSnapshot(id)
		if err != nil {
			return nil, err
		}
		snapshot, err := d.asSnapshot(record)
		if err != nil {
			return nil, err
		}
		result.Snapshots = append(result.Snapshots, snapshot)
		result.ReadyToUse = result.ReadyToUse && snapshot.GetReadyToUse()
	}
	return result, nil
}
