// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	backupitemv1pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/backupitemaction/v1"
	backupitemv2pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/backupitemaction/v2"
	deleteitempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/deleteitemaction/v1"
	objectstorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/objectstore/v1"
	restoreitemv1pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/restoreitemaction/v1"
	restoreitemv2pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/restoreitemaction/v2"
	veleropb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/velero/v1"
)

// registerVeleroServices registers the services that Velero knows, under its names.
func (s *Server) registerVeleroServices(r grpc.ServiceRegistrar) {
	proto.RegisterVelero(r, &veleropb.PluginLister_ServiceDesc, veleroLister{server: s})
	proto.RegisterVelero(r, &backupitemv1pb.BackupItemAction_ServiceDesc,
		backupItemV1{metadataService: s.newMetadataService(sdk.KindBackupItemAction, sdk.V1)})
	proto.RegisterVelero(r, &backupitemv2pb.BackupItemAction_ServiceDesc,
		backupItemV2{metadataService: s.newMetadataService(sdk.KindBackupItemAction, sdk.V2)})
	proto.RegisterVelero(r, &restoreitemv1pb.RestoreItemAction_ServiceDesc,
		restoreItemV1{metadataService: s.newMetadataService(sdk.KindRestoreItemAction, sdk.V1)})
	proto.RegisterVelero(r, &restoreitemv2pb.RestoreItemAction_ServiceDesc,
		restoreItemV2{metadataService: s.newMetadataService(sdk.KindRestoreItemAction, sdk.V2)})
	proto.RegisterVelero(r, &deleteitempb.DeleteItemAction_ServiceDesc,
		deleteItemV1{metadataService: s.newMetadataService(sdk.KindDeleteItemAction, sdk.V1)})
	proto.RegisterVelero(r, &objectstorepb.ObjectStore_ServiceDesc,
		objectStoreV1{metadataService: s.newMetadataService(sdk.KindObjectStore, sdk.V1)})
}

// veleroLister lists the actions of the process for Velero. Velero does not start with a
// plugin that lists an unknown kind or an invalid name, so those are omitted.
type veleroLister struct {
	veleropb.UnimplementedPluginListerServer
	server *Server
}

func (l veleroLister) ListPlugins(context.Context, *emptypb.Empty) (*veleropb.ListPluginsResponse, error) {
	out := &veleropb.ListPluginsResponse{}
	for _, e := range l.server.registry.order {
		kind := veleroKindOf(e.id)
		if kind == "" || !strings.Contains(e.id.name, "/") {
			continue
		}
		// Velero would call both versions of an action for every item.
		newer := actionID{kind: e.id.kind, version: sdk.V2, name: e.id.name}
		if _, ok := l.server.registry.entries[newer]; ok && e.id != newer {
			continue
		}
		// Velero starts the command that is named here.
		out.Plugins = append(out.Plugins, &veleropb.PluginIdentifier{Command: os.Args[0], Kind: kind, Name: e.id.name})
	}
	return out, nil
}

// veleroKindOf returns Velero's name of a kind and version, "" if Velero does not know it.
func veleroKindOf(of actionID) string {
	both := of.kind == sdk.KindBackupItemAction || of.kind == sdk.KindRestoreItemAction
	switch {
	case both && of.version == sdk.V2:
		return string(of.kind) + "V2"
	case of.version != sdk.V1:
		return ""
	case both, of.kind == sdk.KindDeleteItemAction, of.kind == sdk.KindObjectStore:
		return string(of.kind)
	default:
		return ""
	}
}
