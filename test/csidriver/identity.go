// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const driverName = "directory.csi.grapnel.dev"

// Capabilities that a driver may lack: see options.without.
const (
	capabilitySnapshots      = "snapshots"
	capabilityListSnapshots  = "list-snapshots"
	capabilityGroupSnapshots = "group-snapshots"
)

func (d *driver) lacks(capability string) bool {
	return slices.Contains(strings.Split(d.options.without, ","), capability)
}

// now returns the time of the clock of the storage.
func (d *driver) now() time.Time { return time.Now().Add(d.options.clockSkew) }

// GetPluginInfo implements the service Identity.
func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: driverName, VendorVersion: "1"}, nil
}

// GetPluginCapabilities implements the service Identity.
func (d *driver) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	response := &csi.GetPluginCapabilitiesResponse{}
	services := []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_CONTROLLER_SERVICE}
	if !d.lacks(capabilityGroupSnapshots) {
		services = append(services, csi.PluginCapability_Service_GROUP_CONTROLLER_SERVICE)
	}
	for _, service := range services {
		response.Capabilities = append(response.Capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: service}},
		})
	}
	return response, nil
}

// Probe implements the service Identity.
func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// registrar tells the kubelet where the driver is.
type registrar struct {
	registration.UnimplementedRegistrationServer

	socket string
}

// GetInfo implements the service Registration of the kubelet.
func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: driverName, Endpoint: r.socket, SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus implements the service Registration of the kubelet.
func (r *registrar) NotifyRegistrationStatus(
	_ context.Context, status *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	if !status.GetPluginRegistered() {
		return nil, errors.New("the kubelet does not accept the driver: " + status.GetError())
	}
	return &registration.RegistrationStatusResponse{}, nil
}
