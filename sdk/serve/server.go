// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	hclog "github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	asyncbackupitempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/asyncbackupitemaction/v1"
	asyncrestoreitempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/asyncrestoreitemaction/v1"
	deletepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/deleteaction/v1"
	pluginpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/plugin/v1"
	postbackuppb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/postbackupaction/v1"
	postrestorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/postrestoreaction/v1"
	prebackuppb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/prebackupaction/v1"
	prerestorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/prerestoreaction/v1"
)

// Server collects the actions of a plugin and serves them. Register everything
// first, then call Serve; the methods are not safe for concurrent use.
type Server struct {
	registry    registry
	runningKeys keyedMutex
	features    []string
	level       *slog.LevelVar
	log         *logWriter
	// listOnce runs onList once, with the first request of the operator.
	listOnce sync.Once
	onList   func()
}

// New returns a Server without actions that logs to standard error.
func New() *Server {
	return &Server{level: new(slog.LevelVar), log: newLogWriter(os.Stderr), onList: func() {}}
}

// SetLogOutput sends the log lines to out instead of standard error. It is for tests and
// must be called before Install.
func (s *Server) SetLogOutput(out io.Writer) *Server {
	s.log = newLogWriter(out)
	return s
}

// Install registers the gRPC services with r, or returns all problems of the registrations.
// Serve calls it; tests may call it with their own server.
func (s *Server) Install(r grpc.ServiceRegistrar) error {
	if err := s.registry.validateRegistrations(); err != nil {
		return err
	}
	pluginpb.RegisterPluginListerServer(r, listerService{server: s})
	prebackuppb.RegisterPreBackupActionServer(r, preBackupV1{server: s})
	postbackuppb.RegisterPostBackupActionServer(r, postBackupV1{server: s})
	prerestorepb.RegisterPreRestoreActionServer(r, preRestoreV1{server: s})
	postrestorepb.RegisterPostRestoreActionServer(r, postRestoreV1{server: s})
	deletepb.RegisterDeleteActionServer(r, deleteV1{server: s})
	asyncbackupitempb.RegisterAsyncBackupItemActionServer(r,
		asyncBackupItemV1{metadataService: s.newMetadataService(sdk.KindAsyncBackupItemAction, sdk.V1)})
	asyncrestoreitempb.RegisterAsyncRestoreItemActionServer(r,
		asyncRestoreItemV1{metadataService: s.newMetadataService(sdk.KindAsyncRestoreItemAction, sdk.V1)})
	s.registerVeleroServices(r)
	return nil
}

// Serve serves the plugin until the operator stops it. It is meant to be the whole main
// function of a plugin. It understands the flags --log-level and --features and ignores all
// others. If a registration is invalid, or the program was not started by an operator,
// Serve prints instructions to standard error and exits with status 1.
func (s *Server) Serve() {
	if err := s.servePluginProcess(os.Args[1:], os.Getenv(proto.HandshakeCookieKey)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (s *Server) servePluginProcess(args []string, cookie string) error {
	if err := s.registry.validateRegistrations(); err != nil {
		return fmt.Errorf("this plugin cannot be served:\n%w", err)
	}
	if cookie != proto.HandshakeCookieValue {
		return errors.New(s.usageText())
	}
	s.parseFlags(args)
	logger := s.log.logger(s.level)
	// Lines of libraries that use slog or log get the same format; they are
	// attributed if only one call is in progress.
	slog.SetDefault(logger)
	// go-plugin replaces standard output and error with pipes and sends their content in
	// messages, which arrive at any time. Written to the real standard error, printed lines
	// stay in order with the log. They are restored with the first request: then go-plugin
	// no longer changes both files.
	stderr := os.Stderr
	s.onList = func() { os.Stdout, os.Stderr = stderr, stderr }
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion:  proto.HandshakeVersion,
			MagicCookieKey:   proto.HandshakeCookieKey,
			MagicCookieValue: proto.HandshakeCookieValue,
		},
		Plugins: goplugin.PluginSet{"grapnel": &goPluginAdapter{server: s}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(proto.MaxRequestBytes))...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: s.log, JSONFormat: true}),
	})
	return nil
}

// usageText is printed when a user starts the binary manually.
func (s *Server) usageText() string {
	var text strings.Builder
	fmt.Fprintf(&text, "This is a Grapnel plugin (SDK %s). The operator starts it: name it in a Plugin object.\nIt provides:\n", sdk.Version)
	for _, e := range s.registry.order {
		fmt.Fprintf(&text, "  %s %s %s\n", e.id.kind, e.id.version, e.id.name)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// parseFlags reads the two flags in the forms "--flag value" and "--flag=value". Package
// flag is not used: it stops at an unknown flag, and a newer operator may pass new flags.
func (s *Server) parseFlags(args []string) {
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if !strings.HasPrefix(args[i], "-") || (name != "log-level" && name != "features") {
			continue
		}
		if !joined {
			if i+1 == len(args) {
				return
			}
			i++
			value = args[i]
		}
		if name == "log-level" {
			s.level.Set(parseLogLevel(value))
			continue
		}
		s.features = strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
	}
}

// goPluginAdapter is the adapter between go-plugin and Install.
type goPluginAdapter struct {
	goplugin.NetRPCUnsupportedPlugin
	server *Server
}

// GRPCServer installs the services.
func (p *goPluginAdapter) GRPCServer(_ *goplugin.GRPCBroker, g *grpc.Server) error {
	return p.server.Install(g)
}

// GRPCClient is not used: the operator connects to the services itself.
func (p *goPluginAdapter) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a plugin has no client side")
}
