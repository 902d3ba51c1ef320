// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	hookpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/hook/v1"
	pluginpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/plugin/v1"
	postbackuppb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/postbackupaction/v1"
	postrestorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/postrestoreaction/v1"
	prebackuppb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/prebackupaction/v1"
	prerestorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/prerestoreaction/v1"
)

// listerService lists the actions that the process provides.
type listerService struct {
	pluginpb.UnimplementedPluginListerServer
	server *Server
}

func (l listerService) ListPlugins(context.Context, *pluginpb.ListPluginsRequest) (*pluginpb.ListPluginsResponse, error) {
	l.server.listOnce.Do(l.server.onList)
	out := &pluginpb.ListPluginsResponse{SdkVersion: sdk.Version, Capabilities: []string{proto.CapabilityLogEnd}}
	for _, e := range l.server.registry.order {
		out.Plugins = append(out.Plugins, &pluginpb.PluginIdentifier{
			Kind: string(e.id.kind), Version: e.id.version, Name: e.id.name,
		})
	}
	return out, nil
}

// preBackupV1 serves version 1 of PreBackupAction.
type preBackupV1 struct {
	prebackuppb.UnimplementedPreBackupActionServer
	server *Server
}

func (p preBackupV1) Execute(ctx context.Context, in *hookpb.ExecuteRequest) (*hookpb.ExecuteResponse, error) {
	return p.server.executeHookAction(ctx, actionID{kind: sdk.KindPreBackupAction, version: sdk.V1}, in)
}

// postBackupV1 serves version 1 of PostBackupAction.
type postBackupV1 struct {
	postbackuppb.UnimplementedPostBackupActionServer
	server *Server
}

func (p postBackupV1) Execute(ctx context.Context, in *hookpb.ExecuteRequest) (*hookpb.ExecuteResponse, error) {
	return p.server.executeHookAction(ctx, actionID{kind: sdk.KindPostBackupAction, version: sdk.V1}, in)
}

// preRestoreV1 serves version 1 of PreRestoreAction.
type preRestoreV1 struct {
	prerestorepb.UnimplementedPreRestoreActionServer
	server *Server
}

func (p preRestoreV1) Execute(ctx context.Context, in *hookpb.ExecuteRequest) (*hookpb.ExecuteResponse, error) {
	return p.server.executeHookAction(ctx, actionID{kind: sdk.KindPreRestoreAction, version: sdk.V1}, in)
}

// postRestoreV1 serves version 1 of PostRestoreAction.
type postRestoreV1 struct {
	postrestorepb.UnimplementedPostRestoreActionServer
	server *Server
}

func (p postRestoreV1) Execute(ctx context.Context, in *hookpb.ExecuteRequest) (*hookpb.ExecuteResponse, error) {
	return p.server.executeHookAction(ctx, actionID{kind: sdk.KindPostRestoreAction, version: sdk.V1}, in)
}
