// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/grapnel-dev/grapnel/internal/executor"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
)

// DeclaredActions are the actions of a plugin without a process: the Plugin declares them, and
// executors run them.
type DeclaredActions struct {
	// Executors run the actions: hooks and DeleteActions.
	Executors map[ActionID]executor.Executor
	// Resumable cleans up after any action of the plugin, even one that is no longer
	// declared; nil if nothing continues without the operator. It executes no action.
	Resumable executor.Resumable
	// Digest changes whenever the behavior of the executors changes.
	Digest string
}

// declaredVersion is the version of declared actions: the requests and responses of executors
// are the first version of each kind.
const declaredVersion = "v1"

// loadDeclaredActions puts a plugin without a process in service.
func (c *Catalog) loadDeclaredActions(p *pluginEntry, spec Spec) (Info, error) {
	actions := map[ActionID]pluginclient.ActionVersion{}
	info := Info{Digest: spec.DeclaredActions.Digest}
	for _, id := range slices.SortedFunc(maps.Keys(spec.DeclaredActions.Executors), compareActionIDs) {
		actions[id] = pluginclient.ActionVersion{Name: declaredVersion, Delete: matchAllDeleteAction{}}
		info.Actions = append(info.Actions, Action{Kind: id.Kind, Name: id.Name, Version: declaredVersion})
	}
	return c.activateSuccessor(p, successor{spec: spec, info: info, actions: actions})
}

// declaredExecutor returns the executor of a declared action; nil if the plugin has a process, or
// no such action.
func (c *Catalog) declaredExecutor(pluginObject string, id pluginclient.ActionID) executor.Executor {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.plugins[pluginObject]
	if p == nil || p.spec.DeclaredActions == nil {
		return nil
	}
	return p.spec.DeclaredActions.Executors[id]
}

// ResumableExecutor returns the executor that cleans up after any action of a declared plugin, even
// one that it no longer declares. It returns nil if the plugin is not loaded or has a process, or
// if the work of its actions does not continue without the operator.
func (c *Catalog) ResumableExecutor(pluginObject string) executor.Resumable {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.plugins[pluginObject]
	if p == nil || p.spec.DeclaredActions == nil {
		return nil
	}
	return p.spec.DeclaredActions.Resumable
}

// matchAllDeleteAction is the DeleteAction of a declared action: only the selector in the Plugin
// decides which Backups it applies to.
type matchAllDeleteAction struct{}

// AppliesTo implements pluginclient.DeleteAction.
func (matchAllDeleteAction) AppliesTo(context.Context, pluginclient.ItemCall) (labels.Selector, error) {
	return labels.Everything(), nil
}

// Execute implements pluginclient.DeleteAction. The executor of the action makes the attempts.
func (matchAllDeleteAction) Execute(context.Context, grpc.ClientConnInterface, string, executor.Call) error {
	return host.ErrUnloaded
}

// noConnection is the connection of a plugin without a process, and its calls.
type noConnection struct{}

// Begin implements pluginclient.Connection.
func (n noConnection) Begin(context.Context, host.Call) (host.OpenCall, error) { return n, nil }

// Conn implements host.OpenCall.
func (noConnection) Conn() grpc.ClientConnInterface { return nil }

// ID implements host.OpenCall.
func (noConnection) ID() string { return "" }

// End implements host.OpenCall.
func (noConnection) End(_ context.Context, err error) error { return err }
