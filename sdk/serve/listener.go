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

	"github.com/grapnel-dev/grapnel/sdk/proto"
	pluginpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/plugin/v1"
)

const (
	// handshakeTimeout is the time a client has from connecting until the connection is ready
	// for calls.
	handshakeTimeout = 20 * time.Second
	// pingInterval and pingTimeout detect a client that disappeared without closing its
	// connection.
	pingInterval, pingTimeout = time.Minute, 20 * time.Second
	// minPingInterval is how often a client may ping; the operator does every 30 seconds.
	minPingInterval = 10 * time.Second
)

// Listen serves the plugin at an address until ctx ends. It is for a plugin that runs in
// its own container, beside the operator or behind a Service, and is named by
// spec.executor.grpc of a Plugin. Listen replaces Serve. Like Serve, it is called once,
// after everything is registered.
//
// When ctx ends, health checks return NOT_SERVING, and no new call is accepted. Listen returns nil
// when the open calls have ended, or after opts.Grace. Then the ctx of the remaining calls ends,
// and Listen does not wait for them. Errors before that say what is wrong with the registrations,
// the options, the files or the address.
//
// Besides the actions, Listen serves grpc.health.v1.Health (Check), and sends the log lines
// of calls to the operator that makes them. The lines are also written to standard error.
func (s *Server) Listen(ctx context.Context, opts ListenOptions) error {
	if err := s.registry.validateRegistrations(); err != nil {
		return fmt.Errorf("this plugin cannot be served:\n%w", err)
	}
	opts, at, err := opts.completeAndValidate()
	if err != nil {
		return fmt.Errorf("serving the plugin: %w", err)
	}
	s.level.Set(parseLogLevel(opts.LogLevel))
	s.features = opts.Features
	creds, err := opts.transportCredentials(s.log.logger(s.level))
	if err != nil {
		return fmt.Errorf("serving the plugin: %w", err)
	}
	lines := newLogHub(s.log)
	s.log = newLogWriter(lines)
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

// newListenServer returns a server with everything except the actions.
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
		// Not stopped: stopping also waits for actions, which may ignore the end of their
		// ctx.
		g.Stop()
	}
	<-served
	return nil
}

// healthService answers Check. A Watch would never end, and would prevent the server from
// stopping.
type healthService struct {
	*health.Server
}

// Watch returns Unimplemented, which clients treat as no update.
func (healthService) Watch(*grpc_health_v1.HealthCheckRequest, grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	return status.Error(codes.Unimplemented, "use Check")
}
