// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
)

// NodeGetInfo implements the service Node.
func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.options.nodeName}, nil
}

// NodeGetCapabilities implements the service Node: there are none.
func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// NodePublishVolume implements the service Node: it mounts the directory of the volume at the target.
func (d *driver) NodePublishVolume(
	_ context.Context, request *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	id, target := request.GetVolumeId(), request.GetTargetPath()
	if id == "" || target == "" {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a volume or a target")
	}
	if reason := findUnsupported([]*csi.VolumeCapability{request.GetVolumeCapability()}); reason != "" {
		return nil, status.Error(codes.InvalidArgument, reason)
	}
	if request.GetVolumeCapability().GetBlock() != nil {
		return nil, status.Error(codes.InvalidArgument, "a volume is a directory, which cannot be published as a block volume")
	}
	release, err := d.locks.acquire([]string{target}, []string{id})
	if err != nil {
		return nil, err
	}
	defer release()
	if _, err := d.loadVolume(id); err != nil {
		return nil, err
	}
	source := driverdir.DataPath[driverdir.Volume](d.dir, id)
	mounted, err := isSameDirectory(source, target)
	if err == nil && !mounted {
		err = bindMount(source, target, request.GetReadonly())
	}
	if err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume implements the service Node: it unmounts and removes the target.
func (d *driver) NodeUnpublishVolume(
	_ context.Context, request *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	id, target := request.GetVolumeId(), request.GetTargetPath()
	if id == "" || target == "" {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a volume or a target")
	}
	release, err := d.locks.acquire([]string{target}, nil)
	if err != nil {
		return nil, err
	}
	defer release()
	// A target that is not a mount point, or is gone, was unmounted by an earlier call.
	err = unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("unmounting the volume: %w", err)
	}
	// It fails if the directory is not empty: what is in it would be lost.
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing the target: %w", err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func isSameDirectory(source, target string) (bool, error) {
	targetInfo, err := os.Stat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	sourceInfo, err := os.Stat(source)
	return err == nil && os.SameFile(sourceInfo, targetInfo), err
}

// bindMount mounts a directory at a target, which it creates. Neither is a mount left if it fails.
func bindMount(source, target string, readonly bool) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return err
	}
	if err := os.Mkdir(target, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return errors.Join(fmt.Errorf("mounting the volume: %w", err), os.Remove(target))
	}
	if !readonly {
		return nil
	}
	if err := unix.Mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		return errors.Join(fmt.Errorf("making the mount read-only: %w", err), unix.Unmount(target, 0), os.Remove(target))
	}
	return nil
}
