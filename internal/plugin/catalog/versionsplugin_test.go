// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"context"
	"errors"
	"os"
	"strings"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/grapnel-dev/grapnel/sdk/proto"
	itemv1pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/backupitemaction/v1"
	itemv2pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/backupitemaction/v2"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
	pluginpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/plugin/v1"
)

// This is the plugin of the worked example of docs/plugins/VERSIONING.md. Its version 3 of
// BackupItemAction exists only here. The parts that an author would get from the SDK are
// hand-written: the service, its registration and its line in the list.

// versionedAction is the name of its one action.
const versionedAction = "example.io/versioned"

// serveVersions makes this program a plugin that offers one BackupItemAction in the
// versions of a list "v3,v2". It does not return.
func serveVersions(list string) {
	versions := strings.Split(list, ",")
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion: proto.HandshakeVersion, MagicCookieKey: proto.HandshakeCookieKey, MagicCookieValue: proto.HandshakeCookieValue,
		},
		Plugins:    goplugin.PluginSet{"versions": &versionedPlugin{versions: versions}},
		GRPCServer: goplugin.DefaultGRPCServer,
	})
	os.Exit(0)
}

type versionedPlugin struct {
	goplugin.NetRPCUnsupportedPlugin
	versions []string
}

// GRPCServer installs the lister and a service per version.
func (p *versionedPlugin) GRPCServer(_ *goplugin.GRPCBroker, server *grpc.Server) error {
	pluginpb.RegisterPluginListerServer(server, &versionedLister{versions: p.versions})
	for _, version := range p.versions {
		switch version {
		case "v3":
			server.RegisterService(&itemV3Service, itemV3{})
		case "v2":
			proto.RegisterVelero(server, &itemv2pb.BackupItemAction_ServiceDesc, itemV2{})
		case "v1":
			proto.RegisterVelero(server, &itemv1pb.BackupItemAction_ServiceDesc, itemV1{})
		}
	}
	return nil
}

// GRPCClient is not used.
func (*versionedPlugin) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a plugin has no client side")
}

type versionedLister struct {
	pluginpb.UnimplementedPluginListerServer
	versions []string
}

func (l *versionedLister) ListPlugins(context.Context, *pluginpb.ListPluginsRequest) (*pluginpb.ListPluginsResponse, error) {
	out := &pluginpb.ListPluginsResponse{}
	for _, version := range l.versions {
		out.Plugins = append(out.Plugins, &pluginpb.PluginIdentifier{Kind: "BackupItemAction", Version: version, Name: versionedAction})
	}
	return out, nil
}

// itemV3 has two changes: Execute gets one message with all data, and its response says why
// it changed the object.
type itemV3 struct{}

const itemV3Name = "example.backupitemaction.v3.BackupItemAction"

// itemV3Service is the code that protoc would generate.
var itemV3Service = grpc.ServiceDesc{
	ServiceName: itemV3Name, HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Execute",
		Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := &structpb.Struct{}
			if err := decode(in); err != nil {
				return nil, err
			}
			return itemV3{}.Execute(ctx, in)
		},
	}},
}

// Execute reports that version 3 was called, and fails for objects that request it.
func (itemV3) Execute(_ context.Context, in *structpb.Struct) (*structpb.Struct, error) {
	if strings.Contains(in.GetFields()["item"].GetStringValue(), "please fail") {
		// The worst code for this: a missing version has the same code.
		return nil, status.Error(codes.Unimplemented, "version 3 does not do that")
	}
	return structpb.NewStruct(map[string]any{
		"item":   `{"calledBy":"v3"}`,
		"reason": "key " + in.GetFields()["key"].GetStringValue(),
	})
}

type itemV2 struct {
	itemv2pb.UnimplementedBackupItemActionServer
}

func (itemV2) AppliesTo(context.Context, *itempb.AppliesToRequest) (*itempb.AppliesToResponse, error) {
	return &itempb.AppliesToResponse{}, nil
}

// Execute reports that version 2 was called. It is built with a later SDK, in which the
// response has one more optional field.
func (itemV2) Execute(context.Context, *itemv2pb.ExecuteRequest) (*itemv2pb.ExecuteResponse, error) {
	out := &itemv2pb.ExecuteResponse{Item: []byte(`{"calledBy":"v2"}`), OperationID: "op"}
	out.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 99, protowire.BytesType), "from the future"))
	return out, nil
}

type itemV1 struct {
	itemv1pb.UnimplementedBackupItemActionServer
}

func (itemV1) AppliesTo(context.Context, *itempb.AppliesToRequest) (*itempb.AppliesToResponse, error) {
	return &itempb.AppliesToResponse{}, nil
}

// Execute reports that version 1 was called.
func (itemV1) Execute(context.Context, *itemv1pb.ExecuteRequest) (*itemv1pb.ExecuteResponse, error) {
	return &itemv1pb.ExecuteResponse{Item: []byte(`{"calledBy":"v1"}`)}, nil
}
