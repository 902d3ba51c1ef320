// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	pluginpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/plugin/v1"
)

// commitStartFault commits the fault with the given name. It returns only if the plugin
// should be served.
func commitStartFault(name string) error {
	switch name {
	case "", "none":
		return nil
	case "exit":
		fmt.Fprintln(os.Stderr, "2026/01/02 03:04:05 cannot read the licence file")
		fmt.Fprintln(os.Stderr, "password=hunter2 was refused")
		os.Exit(3)
	case "exit-silently":
		os.Exit(0)
	case "rubbish":
		fmt.Println("Hello! Starting up with token=abcdef123456 ...")
		blockForever()
	case "rubbish-and-exit":
		fmt.Println("usage: tool [flags]")
		os.Exit(2)
	case "endless":
		for {
			fmt.Print(strings.Repeat("x", 4096))
		}
	case "hang":
		fmt.Fprintln(os.Stderr, "waiting for a lock that never comes")
		blockForever()
	case "hang-with-child":
		// A grandchild that would survive if only the child were killed.
		child := exec.Command("sleep", "31536000")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "grandchild %d\n", child.Process.Pid)
		blockForever()
	case "wrong-protocol":
		fmt.Println("1|1|unix|/nowhere|grpc")
		blockForever()
	case "netrpc":
		fmt.Println("1|2|unix|/nowhere|netrpc")
		blockForever()
	case "wrong-cookie":
		other := handshakeConfig()
		other.MagicCookieKey = "ANOTHER_SYSTEM"
		goplugin.Serve(&goplugin.ServeConfig{HandshakeConfig: other, Plugins: goplugin.PluginSet{}, GRPCServer: goplugin.DefaultGRPCServer})
	case "tcp":
		fmt.Println("1|2|tcp|127.0.0.1:1|grpc")
		blockForever()
	case "dead-socket":
		fmt.Println("1|2|unix|/nowhere/socket|grpc")
		blockForever()
	default:
		serveFaultyLister(name)
	}
	return nil
}

// blockUntilFile returns when the file at path exists.
func blockUntilFile(path string) {
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// blockForever does not return. An empty select would be detected as a deadlock.
func blockForever() {
	for {
		time.Sleep(time.Hour)
	}
}

// serveFaultyLister serves a lister that misbehaves, and nothing else.
func serveFaultyLister(name string) {
	lister := &faultyLister{mode: name}
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: handshakeConfig(),
		Plugins: goplugin.PluginSet{"fault": &goPluginAdapter{install: func(r grpc.ServiceRegistrar) error {
			if name != "no-lister" {
				pluginpb.RegisterPluginListerServer(r, lister)
			}
			return nil
		}}},
		GRPCServer: goplugin.DefaultGRPCServer,
	})
	os.Exit(0)
}

type faultyLister struct {
	pluginpb.UnimplementedPluginListerServer
	mode string
}

// ListPlugins responds according to the mode.
func (l *faultyLister) ListPlugins(context.Context, *pluginpb.ListPluginsRequest) (*pluginpb.ListPluginsResponse, error) {
	one := func(kind, version, name string) *pluginpb.PluginIdentifier {
		return &pluginpb.PluginIdentifier{Kind: kind, Version: version, Name: name}
	}
	const pre = "PreBackupAction"
	switch l.mode {
	case "lister-hang":
		blockForever()
	case "lister-exit":
		os.Exit(5)
	case "lister-error":
		return nil, fmt.Errorf("cannot list, token=abcdef123456")
	case "lister-bad-name":
		return &pluginpb.ListPluginsResponse{Plugins: []*pluginpb.PluginIdentifier{one(pre, "v1", "Not A/Name")}}, nil
	case "lister-duplicate":
		return &pluginpb.ListPluginsResponse{Plugins: []*pluginpb.PluginIdentifier{one(pre, "v1", "a.io/b"), one(pre, "v1", "a.io/b")}}, nil
	case "lister-newer":
		return &pluginpb.ListPluginsResponse{Plugins: []*pluginpb.PluginIdentifier{one("MoonAction", "v1", "a.io/b"), one(pre, "v9", "a.io/b")}}, nil
	case "lister-empty":
		return &pluginpb.ListPluginsResponse{}, nil
	}
	return nil, fmt.Errorf("FAULT_START has the unknown value %q", l.mode)
}
