// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/grapnel-dev/grapnel/sdk/proto"
	backupitempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/backupitemaction/v1"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
	objectstorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/objectstore/v1"
	velerov1 "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/velero/v1"
)

// serveVeleroPlugin serves what a plugin built with Velero's framework serves, faults
// included. It does not return.
func serveVeleroPlugin(list string) {
	a := &veleroAction{handlers: map[string]bool{}, stderr: os.Stderr}
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: handshakeConfig(),
		Plugins: goplugin.PluginSet{"fault": &goPluginAdapter{install: func(r grpc.ServiceRegistrar) error {
			proto.RegisterVelero(r, &velerov1.PluginLister_ServiceDesc, &veleroLister{list: list})
			proto.RegisterVelero(r, &backupitempb.BackupItemAction_ServiceDesc, a)
			proto.RegisterVelero(r, &objectstorepb.ObjectStore_ServiceDesc, newVeleroStore(os.Getenv))
			return nil
		}}},
		// These are the limits of Velero's plugins.
		GRPCServer: goplugin.DefaultGRPCServer,
	})
	os.Exit(0)
}

// veleroLister is Velero's lister.
type veleroLister struct {
	velerov1.UnimplementedPluginListerServer
	list string
}

// ListPlugins returns the actions in FAULT_VELERO. The operator must not start the command.
func (l *veleroLister) ListPlugins(context.Context, *emptypb.Empty) (*velerov1.ListPluginsResponse, error) {
	out := &velerov1.ListPluginsResponse{}
	for _, text := range strings.Split(l.list, ",") {
		kind, name, _ := strings.Cut(text, ":")
		out.Plugins = append(out.Plugins, &velerov1.PluginIdentifier{Command: "/bin/false", Kind: kind, Name: name})
	}
	return out, nil
}

// veleroAction is a BackupItemAction that follows the field "fault" of its objects.
type veleroAction struct {
	backupitempb.UnimplementedBackupItemActionServer
	// stderr is the real standard error: go-plugin replaces it with another file.
	stderr *os.File

	mu       sync.Mutex
	handlers map[string]bool
	creating bool
	leaked   [][]byte
}

// createHandlerUnlocked imitates the unlocked map in which Velero's framework stores its actions:
// two concurrent first calls end the process, as in the Go runtime, but deterministically.
func (a *veleroAction) createHandlerUnlocked(name string) {
	a.mu.Lock()
	known := a.handlers[name]
	if known {
		a.mu.Unlock()
		return
	}
	if a.creating {
		fmt.Fprintln(a.stderr, "fatal error: concurrent map writes")
		os.Exit(2)
	}
	a.creating = true
	a.mu.Unlock()
	time.Sleep(50 * time.Millisecond)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.creating, a.handlers[name] = false, true
}

// AppliesTo fails in the way that the file FAULT_VELERO_BREAK configures, if it exists.
func (a *veleroAction) AppliesTo(_ context.Context, in *itempb.AppliesToRequest) (*itempb.AppliesToResponse, error) {
	a.createHandlerUnlocked(in.GetPlugin())
	how, err := os.ReadFile(os.Getenv("FAULT_VELERO_BREAK"))
	if err != nil {
		return &itempb.AppliesToResponse{Selector: &itempb.ResourceSelector{IncludedResources: []string{"pods"}}}, nil
	}
	switch string(how) {
	case "exit":
		os.Exit(6)
	case "unimplemented":
		return nil, status.Error(codes.Unimplemented, "unknown method AppliesTo")
	case "hang":
		blockForever()
	}
	return nil, status.Error(codes.Unknown, "the licence has expired, token=abcdef123456")
}

// Execute commits the fault in the object's field "fault".
func (a *veleroAction) Execute(ctx context.Context, in *backupitempb.ExecuteRequest) (*backupitempb.ExecuteResponse, error) {
	a.createHandlerUnlocked(in.GetPlugin())
	var object struct{ Fault, Argument string }
	if err := json.Unmarshal(in.GetItem(), &object); err != nil {
		return nil, status.Error(codes.Unknown, err.Error())
	}
	out := &backupitempb.ExecuteResponse{Item: in.GetItem()}
	switch object.Fault {
	case "", "none":
	case "exit":
		os.Exit(4)
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		blockForever()
	case "hang":
		blockForever()
	case "wait":
		fmt.Fprintln(a.stderr, newVeleroLogLine("waiting of "+object.Argument))
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	case "barrier":
		// This keeps the call open until the test continues.
		fmt.Fprintln(a.stderr, newVeleroLogLine("at the barrier "+object.Argument))
		blockUntilFile(object.Argument)
	case "garbage":
		out.Item = []byte("\x00\xff no json")
	case "oversize":
		out.Item = bytes.Repeat([]byte("o"), 10<<20)
	case "endless":
		for range 20_000 {
			out.AdditionalItems = append(out.AdditionalItems, &itempb.ResourceIdentifier{Resource: "pods", Name: "p"})
		}
	case "leak":
		a.mu.Lock()
		defer a.mu.Unlock()
		a.leaked = append(a.leaked, bytes.Repeat([]byte("l"), 64<<20))
	case "leak-and-hang":
		a.leaked = append(a.leaked, bytes.Repeat([]byte("l"), 128<<20))
		blockForever()
	case "fork":
		return out, startOrphanProcess()
	case "unavailable":
		return nil, status.Error(codes.Unavailable, "the storage is unavailable")
	case "stack":
		return nil, newErrorWithStack(codes.Unknown, "freezing failed")
	case "panic":
		return nil, newErrorWithStack(codes.Aborted, proto.PanicPrefix+"a pointer is nil")
	default:
		return nil, status.Errorf(codes.Unknown, "unknown fault %q", object.Fault)
	}
	return out, nil
}

// newVeleroLogLine returns a log line of Velero's plugins, which does not identify the
// call.
func newVeleroLogLine(message string) string {
	return fmt.Sprintf(`{"@level":"info","@message":%q,"@timestamp":"2026-01-02T03:04:05Z","cmd":"/plugins/x"}`, message)
}

// startOrphanProcess leaves a child behind.
func startOrphanProcess() error {
	child := exec.Command("sleep", "31536001")
	return child.Start()
}

// newErrorWithStack returns an error with a stack in the form of Velero's framework.
func newErrorWithStack(code codes.Code, message string) error {
	stack := &velerov1.Stack{Frames: []*velerov1.StackFrame{
		{File: "/src/plugin/action.go", Line: 42, Function: "plugin.(*Action).Execute"}, {File: "/src/main.go", Line: 7, Function: "main.main"},
	}}
	value, err := protobuf.Marshal(stack)
	if err != nil {
		return err
	}
	s := status.New(code, message).Proto()
	s.Details = append(s.Details, &anypb.Any{TypeUrl: proto.StackType, Value: value})
	return status.ErrorProto(s)
}
