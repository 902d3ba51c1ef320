// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
)

// runningDriver is a driver with clients of it.
type runningDriver struct {
	csi.ControllerClient
	csi.GroupControllerClient
	csi.NodeClient

	options options
	dir     driverdir.Dir
	stop    func()
}

// startDriver starts a driver in this process, in the directory of the options or one of the test.
func startDriver(t *testing.T, o options) *runningDriver {
	t.Helper()
	if o.dir == "" {
		o.dir = t.TempDir()
	}
	sockets, err := os.MkdirTemp("", "csi") // The path of a socket must be short.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	o.endpoint, o.nodeName = filepath.Join(sockets, "csi.sock"), "node"
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, o) }()
	conn, err := grpc.NewClient("unix:"+o.endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	d := &runningDriver{
		ControllerClient: csi.NewControllerClient(conn), GroupControllerClient: csi.NewGroupControllerClient(conn),
		NodeClient: csi.NewNodeClient(conn), options: o, dir: driverdir.Dir(o.dir),
	}
	d.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the driver ended with %v", err)
		}
		_ = conn.Close()
	}
	t.Cleanup(d.stop)
	if _, err := csi.NewIdentityClient(conn).Probe(t.Context(), &csi.ProbeRequest{}); err != nil {
		t.Fatal(err)
	}
	return d
}

// call returns the response of a call that must succeed.
func call[Request, Response any](
	t *testing.T, method func(context.Context, *Request, ...grpc.CallOption) (*Response, error), request *Request,
) *Response {
	t.Helper()
	response, err := method(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func volumeRequest(name string) *csi.CreateVolumeRequest {
	return &csi.CreateVolumeRequest{Name: name, VolumeCapabilities: []*csi.VolumeCapability{mountCapability()}}
}

func mountCapability() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

// createVolume creates a volume with a file "data" with its name.
func (d *runningDriver) createVolume(t *testing.T, name string) string {
	t.Helper()
	id := call(t, d.CreateVolume, volumeRequest(name)).GetVolume().GetVolumeId()
	d.write(t, id, name)
	return id
}

func (d *runningDriver) write(t *testing.T, volume, content string) {
	t.Helper()
	path := filepath.Join(driverdir.DataPath[driverdir.Volume](d.dir, volume), "data")
	if err := os.WriteFile(path, []byte(content), 0o640); err != nil {
		t.Fatal(err)
	}
}

func (d *runningDriver) createSnapshot(t *testing.T, name, volume string) *csi.Snapshot {
	t.Helper()
	return call(t, d.CreateSnapshot, &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: volume}).GetSnapshot()
}

// restore returns the content of the file in a new volume of a snapshot.
func (d *runningDriver) restore(t *testing.T, snapshot, name string) string {
	t.Helper()
	request := volumeRequest(name)
	request.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: snapshot},
	}}
	id := call(t, d.CreateVolume, request).GetVolume().GetVolumeId()
	content, err := os.ReadFile(filepath.Join(driverdir.DataPath[driverdir.Volume](d.dir, id), "data"))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func count[R driverdir.Record](t *testing.T, dir driverdir.Dir) int {
	t.Helper()
	records, err := driverdir.List[R](dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(records)
}
