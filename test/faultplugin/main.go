// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Command faultplugin is a plugin that misbehaves on purpose, for tests of the operator. It
// uses the SDK for correct behavior and plain gRPC for faults. Environment variables
// control everything:
//
//	FAULT_START            a fault before or during the handshake, see startup.go
//	FAULT_ACTIONS          what to provide, "Kind:name,Kind:name", of the four kinds of
//	                       hooks, BackupItemAction and RestoreItemAction (item.go),
//	                       AsyncBackupItemAction and AsyncRestoreItemAction
//	                       (operation.go), and DeleteAction (deleteaction.go); by default a pre
//	                       and a post action of a backup, both named fault.example.io/fault
//	FAULT_STARTED          the beginning of the name of an empty file that each process creates when it
//	                       starts; the PID of its parent follows
//	FAULT_SELECTOR         the response of a DeleteAction to AppliesTo, see deleteaction.go; the
//	                       parameter "selector" of a call takes precedence
//	FAULT_OPERATIONS       the directory where operations are stored, so that they outlive the
//	                       process
//	FAULT_VELERO           be a plugin for Velero with Velero's lister instead, which lists
//	                       "Kind:name,Kind:name"; there is a BackupItemAction, see
//	                       velero.go, and an ObjectStore, see velerostore.go
//	FAULT_VELERO_BREAK     a file; while it exists, AppliesTo fails in the way that it configures
//	FAULT_CALL             a fault of every call of a hook or DeleteAction, or
//	                       "PreBackup=fault,Delete=fault", see hookaction.go; the parameter
//	                       "fault" of a call takes precedence
//	FAULT_CALL_LOG         a file that gets one JSON line per call: point, action, key,
//	                       attempt
//	FAULT_KILL_PARENT_AT   "PreBackup:2": send SIGKILL to the parent process in the
//	                       second call for the point, after the action has worked and
//	                       before it responds; calls are counted in FAULT_CALL_LOG
//	                       if it is set, so that the count survives the process
//	FAULT_KILL_PARENT_WHEN "before": kill before the action works instead
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/sdk"
	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	asyncrestoreitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncrestoreitemaction/v1"
	backupitemv1 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v1"
	deletev1 "github.com/grapnel-dev/grapnel/sdk/deleteaction/v1"
	deleteitemv1 "github.com/grapnel-dev/grapnel/sdk/deleteitemaction/v1"
	postbackupv1 "github.com/grapnel-dev/grapnel/sdk/postbackupaction/v1"
	postrestorev1 "github.com/grapnel-dev/grapnel/sdk/postrestoreaction/v1"
	prebackupv1 "github.com/grapnel-dev/grapnel/sdk/prebackupaction/v1"
	prerestorev1 "github.com/grapnel-dev/grapnel/sdk/prerestoreaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	restoreitemv1 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

const defaultActions = "PreBackupAction:fault.example.io/fault,PostBackupAction:fault.example.io/fault"

func main() {
	if err := commitStartFault(os.Getenv("FAULT_START")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if path := os.Getenv("FAULT_STARTED"); path != "" {
		if err := os.WriteFile(path+strconv.Itoa(os.Getppid()), nil, 0o600); err != nil { //nolint:gosec // named by the test
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if list := os.Getenv("FAULT_VELERO"); list != "" {
		serveVeleroPlugin(list)
	}
	actions := os.Getenv("FAULT_ACTIONS")
	if actions == "" {
		actions = defaultActions
	}
	server, err := newServer(actions)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	r := newRecorder(os.Getenv)
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: handshakeConfig(),
		Plugins:         goplugin.PluginSet{"fault": &goPluginAdapter{install: server.Install}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(proto.MaxRequestBytes), grpc.UnaryInterceptor(r.interceptUnary))...)
		},
	})
}

func handshakeConfig() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{
		ProtocolVersion:  proto.HandshakeVersion,
		MagicCookieKey:   proto.HandshakeCookieKey,
		MagicCookieValue: proto.HandshakeCookieValue,
	}
}

// newServer registers the actions of a list "Kind:name,Kind:name".
func newServer(actions string) (*serve.Server, error) {
	server := serve.New()
	a, operations := action{stderr: os.Stderr}, newOperations(os.Getenv)
	for _, text := range strings.Split(actions, ",") {
		kind, name, _ := strings.Cut(text, ":")
		switch sdk.Kind(kind) {
		case sdk.KindPreBackupAction:
			server.RegisterPreBackupActionV1(name, func() (prebackupv1.PreBackupAction, error) { return a, nil })
		case sdk.KindPostBackupAction:
			server.RegisterPostBackupActionV1(name, func() (postbackupv1.PostBackupAction, error) { return a, nil })
		case sdk.KindPreRestoreAction:
			server.RegisterPreRestoreActionV1(name, func() (prerestorev1.PreRestoreAction, error) { return a, nil })
		case sdk.KindPostRestoreAction:
			server.RegisterPostRestoreActionV1(name, func() (postrestorev1.PostRestoreAction, error) { return a, nil })
		case sdk.KindBackupItemAction:
			server.RegisterBackupItemActionV1(name, func() (backupitemv1.BackupItemAction, error) { return backupAction{}, nil })
		case sdk.KindRestoreItemAction:
			server.RegisterRestoreItemActionV1(name, func() (restoreitemv1.RestoreItemAction, error) { return restoreAction{}, nil })
		case sdk.KindAsyncBackupItemAction:
			server.RegisterAsyncBackupItemActionV1(name, func() (asyncbackupitemv1.AsyncBackupItemAction, error) {
				return asyncBackupAction{operations: operations}, nil
			})
		case sdk.KindAsyncRestoreItemAction:
			server.RegisterAsyncRestoreItemActionV1(name, func() (asyncrestoreitemv1.AsyncRestoreItemAction, error) {
				return asyncRestoreAction{operations: operations}, nil
			})
		case sdk.KindDeleteItemAction:
			server.RegisterDeleteItemActionV1(name, func() (deleteitemv1.DeleteItemAction, error) { return deleteItemAction{name: name}, nil })
		case sdk.KindDeleteAction:
			server.RegisterDeleteActionV1(name, func() (deletev1.DeleteAction, error) { return deleteAction{action: a}, nil })
		default:
			return nil, fmt.Errorf("FAULT_ACTIONS names the unknown kind %q", kind)
		}
	}
	return server, nil
}

// goPluginAdapter installs gRPC services without the SDK.
type goPluginAdapter struct {
	goplugin.NetRPCUnsupportedPlugin
	install func(grpc.ServiceRegistrar) error
}

// GRPCServer installs the services.
func (s *goPluginAdapter) GRPCServer(_ *goplugin.GRPCBroker, g *grpc.Server) error {
	return s.install(g)
}

// GRPCClient is not used: without it go-plugin would not serve gRPC.
func (s *goPluginAdapter) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a plugin has no client side")
}
