// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestPublish(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	d := startDriver(t, options{})
	volume := d.createVolume(t, "v")
	for _, readonly := range []bool{false, true} {
		target := filepath.Join(t.TempDir(), "pod", "mount")
		request := &csi.NodePublishVolumeRequest{
			VolumeId: volume, TargetPath: target, VolumeCapability: mountCapability(), Readonly: readonly,
		}
		for range 2 {
			call(t, d.NodePublishVolume, request)
		}
		if content, err := os.ReadFile(filepath.Join(target, "data")); err != nil || string(content) != "v" {
			t.Errorf("the target has %q, %v", content, err)
		}
		err := os.WriteFile(filepath.Join(target, "data"), []byte("v"), 0o600)
		if errors.Is(err, syscall.EROFS) != readonly {
			t.Errorf("writing with readonly %v: %v", readonly, err)
		}
		for range 2 {
			call(t, d.NodeUnpublishVolume, &csi.NodeUnpublishVolumeRequest{VolumeId: volume, TargetPath: target})
		}
		if _, err := os.Lstat(target); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the target is still there: %v", err)
		}
	}
}

// TestUnsupported: what the driver cannot do is refused, and not ignored.
func TestUnsupported(t *testing.T) {
	d := startDriver(t, options{})
	volume := d.createVolume(t, "v")
	block := &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
		AccessMode: mountCapability().GetAccessMode(),
	}
	clone, once := volumeRequest("clone"), volumeRequest("once")
	clone.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: volume},
	}}
	once.VolumeCapabilities[0].AccessMode.Mode = csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	for name, request := range map[string]*csi.CreateVolumeRequest{
		"a clone":         clone,
		"one writer only": once,
	} {
		if _, err := d.CreateVolume(t.Context(), request); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	publish := &csi.NodePublishVolumeRequest{VolumeId: volume, TargetPath: filepath.Join(t.TempDir(), "mount"), VolumeCapability: block}
	if _, err := d.NodePublishVolume(t.Context(), publish); status.Code(err) != codes.InvalidArgument {
		t.Errorf("publishing a block volume: %v", err)
	}
	for _, id := range []string{"../../etc", "..", ".", "", "a/b"} {
		request := &csi.ValidateVolumeCapabilitiesRequest{VolumeId: id, VolumeCapabilities: []*csi.VolumeCapability{mountCapability()}}
		if _, err := d.ValidateVolumeCapabilities(t.Context(), request); err == nil {
			t.Errorf("volume %q exists", id)
		}
	}
}
