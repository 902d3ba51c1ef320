// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/internal/wire"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	hookpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/hook/v1"
	pluginpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/plugin/v1"
	postbackuppb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/postbackupaction/v1"
	postrestorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/postrestoreaction/v1"
	prebackuppb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/prebackupaction/v1"
	prerestorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/prerestoreaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

// maxResponseBytes is the size of the largest response that the operator accepts: a list of
// keys. The default limit of gRPC is smaller than the response for an object may be.
const maxResponseBytes = 64 << 20

// Plugin is a plugin that runs in the test. It is safe for concurrent use.
type Plugin struct {
	conn   *grpc.ClientConn
	log    logCapture
	lastID atomic.Int64
	// actions are the actions that the plugin lists.
	actions []Action

	calls callTracker
}

// Action is one action that a plugin provides.
type Action struct {
	// Kind, Version and Name identify the registration.
	Kind          sdk.Kind
	Version, Name string
}

// Start serves the actions registered with server until the test ends. It fails the
// test if a registration is wrong.
func Start(tb testing.TB, server *serve.Server) *Plugin {
	tb.Helper()
	p := &Plugin{calls: callTracker{tracked: map[string]trackedCall{}}}
	server.SetLogOutput(&p.log)
	g := grpc.NewServer(grpc.MaxRecvMsgSize(proto.MaxRequestBytes),
		grpc.UnaryInterceptor(p.calls.unaryInterceptor), grpc.StreamInterceptor(p.calls.streamInterceptor))
	if err := server.Install(g); err != nil {
		tb.Fatalf("starting the plugin: %v", err)
	}
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:plugin",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponseBytes)))
	if err != nil {
		tb.Fatalf("connecting to the plugin: %v", err)
	}
	p.conn = conn
	tb.Cleanup(func() {
		_ = conn.Close()
		g.Stop()
		if err := <-served; err != nil {
			tb.Errorf("serving the plugin: %v", err)
		}
	})
	if p.actions, err = p.Actions(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return p
}

// Actions returns the actions that the plugin reports to the operator.
func (p *Plugin) Actions(ctx context.Context) ([]Action, error) {
	resp, err := pluginpb.NewPluginListerClient(p.conn).ListPlugins(ctx, &pluginpb.ListPluginsRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing the actions: %w", err)
	}
	actions := make([]Action, 0, len(resp.GetPlugins()))
	for _, id := range resp.GetPlugins() {
		actions = append(actions, Action{Kind: sdk.Kind(id.GetKind()), Version: id.GetVersion(), Name: id.GetName()})
	}
	return actions, nil
}

// PreBackup calls the PreBackupAction with a name as the operator would. The error is a
// gRPC status: for an error of the action its code is Unknown, for a panic Aborted.
func (p *Plugin) PreBackup(ctx context.Context, name string, req *hook.Request) (*hook.Response, error) {
	return p.executeHookAction(ctx, Action{Kind: sdk.KindPreBackupAction, Version: sdk.V1, Name: name}, req, p.nextCallID())
}

// PostBackup calls the PostBackupAction with a name. It behaves like PreBackup.
func (p *Plugin) PostBackup(ctx context.Context, name string, req *hook.Request) (*hook.Response, error) {
	return p.executeHookAction(ctx, Action{Kind: sdk.KindPostBackupAction, Version: sdk.V1, Name: name}, req, p.nextCallID())
}

// PreRestore calls the PreRestoreAction with a name. It behaves like PreBackup; the request
// must be for a Restore (NewRestoreRequest).
func (p *Plugin) PreRestore(ctx context.Context, name string, req *hook.Request) (*hook.Response, error) {
	return p.executeHookAction(ctx, Action{Kind: sdk.KindPreRestoreAction, Version: sdk.V1, Name: name}, req, p.nextCallID())
}

// PostRestore calls the PostRestoreAction with a name. It behaves like PreRestore.
func (p *Plugin) PostRestore(ctx context.Context, name string, req *hook.Request) (*hook.Response, error) {
	return p.executeHookAction(ctx, Action{Kind: sdk.KindPostRestoreAction, Version: sdk.V1, Name: name}, req, p.nextCallID())
}

func (p *Plugin) nextCallID() string {
	return strconv.FormatInt(p.lastID.Add(1), 10)
}

func (p *Plugin) executeHookAction(ctx context.Context, action Action, req *hook.Request, callID string) (*hook.Response, error) {
	in := *req
	in.Action = action.Name
	message := wire.RequestTo(action.Kind, &in, callID)
	var resp *hookpb.ExecuteResponse
	var err error
	switch action.Kind {
	case sdk.KindPreBackupAction:
		resp, err = prebackuppb.NewPreBackupActionClient(p.conn).Execute(ctx, message)
	case sdk.KindPostBackupAction:
		resp, err = postbackuppb.NewPostBackupActionClient(p.conn).Execute(ctx, message)
	case sdk.KindPreRestoreAction:
		resp, err = prerestorepb.NewPreRestoreActionClient(p.conn).Execute(ctx, message)
	case sdk.KindPostRestoreAction:
		resp, err = postrestorepb.NewPostRestoreActionClient(p.conn).Execute(ctx, message)
	default:
		return nil, fmt.Errorf("plugintest does not know the kind %s", action.Kind)
	}
	if err != nil {
		return nil, err
	}
	return wire.ResponseFrom(resp), nil
}

// LogLines returns the lines that were logged for one idempotency key, in order,
// as JSON.
func (p *Plugin) LogLines(key string) []string {
	return p.log.logLinesForKey(key)
}

// logCapture is the log of a plugin.
type logCapture struct {
	mu    sync.Mutex
	lines []string
}

// Write takes whole lines.
func (l *logCapture) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(string(text)) {
		l.lines = append(l.lines, strings.TrimSuffix(line, "\n"))
	}
	return len(text), nil
}

func (l *logCapture) logLinesForKey(key string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, line := range l.lines {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) == nil && fields[proto.FieldKey] == key {
			found = append(found, line)
		}
	}
	return found
}
