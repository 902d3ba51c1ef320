// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/sdk/internal/logline"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	pluginpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/plugin/v1"
)

const (
	// handshakeTimeout is how long a client may take from its connection until the first call
	// is possible.
	handshakeTimeout = 20 * time.Second
	// pingInterval and pingTimeout find out that a client is gone without having said so.
	pingInterval, pingTimeout = time.Minute, 20 * time.Second
	// minPingInterval is how often a client may ping; the operator does every 30 seconds.
	minPingInterval = 10 * time.Second
)

// Listen serves the plugin at an address until ctx ends: for a plugin that runs in a
// container of its own, beside the operator or behind a Service, and that a Plugin names
// by spec.executor.grpc. It takes the place of Serve, and like that is called once, after
// everything is registered.
//
// When ctx ends, health checks say NOT_SERVING, no new call is accepted, and Listen
// returns nil as soon as the open calls have ended, or after opts.Grace, when what is left of
// them is cut off: their ctx ends, and nobody waits for them. Every error before that says what is wrong with the registrations, the
// options, the files or the address.
//
// Besides the actions it serves grpc.health.v1.Health (Check), and the lines that calls log
// to the operator that makes them. Those are written to standard error, too.
func (s *Server) Listen(ctx context.Context, opts ListenOptions) error {
	if err := s.registry.validateRegistrations(); err != nil {
		return fmt.Errorf("this plugin cannot be served:\n%w", err)
	}
	opts, at, err := opts.completeAndValidate()
	if err != nil {
		return fmt.Errorf("serving the plugin: %w", err)
	}
	s.level.Set(logline.ParseLevel(opts.LogLevel))
	s.features = opts.Features
	creds, err := opts.transportCredentials(s.log.Logger(s.level))
	if err != nil {
		return fmt.Errorf("serving the plugin: %w", err)
	}
	lines := newLogHub(s.log)
	s.log = logline.NewWriter(lines)
	g := newListenServer(creds, lines)
	if err := s.Install(g); err != nil {
		return err
	}
	listener, err := at.openListener(ctx, opts.SocketMode)
	if err != nil {
		return fmt.Errorf("serving the plugin at %s: %w", opts.Address, err)
	}
	return serveUntilDone(ctx, g, lines, listener, opts)
}

// newListenServer returns a server for everything but the actions.
func newListenServer(creds credentials.TransportCredentials, lines *logHub) *grpc.Server {
	g := grpc.NewServer(grpc.Creds(creds), grpc.MaxRecvMsgSize(proto.MaxRequestBytes),
		grpc.ConnectionTimeout(handshakeTimeout), grpc.StatsHandler(connectionTagger{}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingInterval, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingInterval, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(lines.unaryInterceptor), grpc.StreamInterceptor(lines.streamInterceptor))
	pluginpb.RegisterPluginLogServer(g, lines)
	return g
}

// serveUntilDone serves until ctx ends.
func serveUntilDone(ctx context.Context, g *grpc.Server, lines *logHub, listener net.Listener, opts ListenOptions) error {
	healthy := health.NewServer()
	grpc_health_v1.RegisterHealthServer(g, healthService{Server: healthy})
	served := make(chan struct{})
	var failed error
	go func() {
		defer close(served)
		failed = g.Serve(listener)
	}()
	if opts.Listening != nil {
		opts.Listening(listener.Addr())
	}
	select {
	case <-served:
		g.Stop()
		return fmt.Errorf("serving the plugin at %s: %w", opts.Address, failed)
	case <-ctx.Done():
	}
	healthy.Shutdown()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		g.GracefulStop()
	}()
	lines.startDraining()
	timer := time.NewTimer(opts.Grace)
	defer timer.Stop()
	select {
	case <-stopped:
	case <-timer.C:
		// Not stopped: that waits for actions, too, which may not heed the end of their ctx.
		g.Stop()
	}
	<-served
	return nil
}

// healthService answers Check. A Watch would be open for ever, and keep a server that
// stops from ending.
type healthService struct {
	*health.Server
}

// Watch says that there is none, which clients take for no news.
func (healthService) Watch(*grpc_health_v1.HealthCheckRequest, grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	return status.Error(codes.Unimplemented, "use Check")
}
