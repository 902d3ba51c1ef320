// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/internal/wire"
	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	backupitemv1pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/backupitemaction/v1"
	backupitemv2pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/backupitemaction/v2"
	deleteitempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/deleteitemaction/v1"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
	objectstorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/objectstore/v1"
	restoreitemv1pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/restoreitemaction/v1"
	restoreitemv2pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/restoreitemaction/v2"
	veleropb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/velero/v1"
)

// installVelero registers the services that Velero knows, under its names.
func (s *Server) installVelero(r grpc.ServiceRegistrar) {
	of := func(kind sdk.Kind, version string) veleroService {
		return veleroService{server: s, kind: kind, version: version}
	}
	proto.RegisterVelero(r, &veleropb.PluginLister_ServiceDesc, veleroLister{server: s})
	proto.RegisterVelero(r, &backupitemv1pb.BackupItemAction_ServiceDesc,
		backupItemV1{veleroService: of(sdk.KindBackupItemAction, sdk.V1)})
	proto.RegisterVelero(r, &backupitemv2pb.BackupItemAction_ServiceDesc,
		backupItemV2{veleroService: of(sdk.KindBackupItemAction, sdk.V2)})
	proto.RegisterVelero(r, &restoreitemv1pb.RestoreItemAction_ServiceDesc,
		restoreItemV1{veleroService: of(sdk.KindRestoreItemAction, sdk.V1)})
	proto.RegisterVelero(r, &restoreitemv2pb.RestoreItemAction_ServiceDesc,
		restoreItemV2{veleroService: of(sdk.KindRestoreItemAction, sdk.V2)})
	proto.RegisterVelero(r, &deleteitempb.DeleteItemAction_ServiceDesc,
		deleteItemV1{veleroService: of(sdk.KindDeleteItemAction, sdk.V1)})
	proto.RegisterVelero(r, &objectstorepb.ObjectStore_ServiceDesc,
		objectStoreV1{veleroService: of(sdk.KindObjectStore, sdk.V1)})
}

// veleroService is what the services of Velero's kinds have in common.
type veleroService struct {
	server  *Server
	kind    sdk.Kind
	version string
}

// received returns what describes a call to the action of a name. Velero's messages
// have no fields for it: it travels beside them, if the host is Grapnel.
func (v veleroService) received(ctx context.Context, name string) incoming {
	in := incoming{id: id{kind: v.kind, version: v.version, name: name}}
	in.callID = attribute(ctx, proto.MetadataCall)
	in.key = attribute(ctx, proto.MetadataKey)
	if encoded := attribute(ctx, proto.MetadataParameters); encoded != "" {
		if err := json.Unmarshal([]byte(encoded), &in.parameters); err != nil {
			in.problem = refuse(codes.InvalidArgument, fmt.Errorf("reading the parameters of the call: %w", err))
		}
	}
	return in
}

// attribute returns one piece of the metadata of a call.
func attribute(ctx context.Context, name string) string {
	if values := metadata.ValueFromIncomingContext(ctx, name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// selecting is what the kinds of actions on items have in common.
type selecting interface {
	AppliesTo(ctx context.Context) (item.Selector, error)
}

func (v veleroService) appliesTo(ctx context.Context, in *itempb.AppliesToRequest) (*itempb.AppliesToResponse, error) {
	return serveCall(ctx, v.server, v.received(ctx, in.GetPlugin()),
		func(ctx context.Context, action selecting) (*itempb.AppliesToResponse, error) {
			selector, err := action.AppliesTo(ctx)
			if err != nil {
				return nil, err
			}
			return wire.SelectorTo(selector), nil
		})
}

// ask hands a request to a method of an action, and makes a message of what that returns.
// unreadable is why there is no request, if it could not be read.
func ask[Req, Resp, Out any](
	ctx context.Context, req *Req, unreadable error,
	method func(ctx context.Context, req *Req) (Resp, error), message func(resp Resp) (*Out, error),
) (*Out, error) {
	if unreadable != nil {
		return nil, refuse(codes.InvalidArgument, unreadable)
	}
	resp, err := method(ctx, req)
	if err != nil {
		return nil, err
	}
	return message(resp)
}

// tell is ask for a method that returns nothing.
func tell[Req any](
	ctx context.Context, req *Req, unreadable error, method func(ctx context.Context, req *Req) error,
) (*emptypb.Empty, error) {
	if unreadable != nil {
		return nil, refuse(codes.InvalidArgument, unreadable)
	}
	return &emptypb.Empty{}, method(ctx, req)
}

// veleroLister tells Velero what the process provides. Velero does not start with a
// plugin that lists a kind or a name it does not know, so such are left out.
type veleroLister struct {
	veleropb.UnimplementedPluginListerServer
	server *Server
}

func (l veleroLister) ListPlugins(context.Context, *emptypb.Empty) (*veleropb.ListPluginsResponse, error) {
	out := &veleropb.ListPluginsResponse{}
	for _, e := range l.server.registry.order {
		kind := veleroKind(e.id)
		if kind == "" || !strings.Contains(e.id.name, "/") {
			continue
		}
		// Of an action in both versions Velero would call both for every item.
		newer := id{kind: e.id.kind, version: sdk.V2, name: e.id.name}
		if _, ok := l.server.registry.entries[newer]; ok && e.id != newer {
			continue
		}
		// Velero starts what is named here.
		out.Plugins = append(out.Plugins, &veleropb.PluginIdentifier{Command: os.Args[0], Kind: kind, Name: e.id.name})
	}
	return out, nil
}

// veleroKind returns what Velero calls a kind and version, "" if it does not know it.
func veleroKind(of id) string {
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
