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
	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/internal/plugin/process"
)

// DeclaredActions are the actions of a plugin that has no process: nothing announces them, and each
// is run by an executor.
type DeclaredActions struct {
	// Executors run the actions: hooks and DeleteActions.
	Executors map[ActionID]executor.Executor
	// Resumable ends what any action of the plugin began, also one that is not declared any
	// more; nil if nothing goes on without the operator. Nothing is executed by it.
	Resumable executor.Resumable
	// Digest changes whenever the executors do something else.
	Digest string
}

// declaredVersion is the version of declared actions: what an executor is told and answers is
// the first version of each kind.
const declaredVersion = "v1"

// loadDeclaredActions puts a plugin in service that has no process.
func (c *Catalog) loadDeclaredActions(p *pluginEntry, spec Spec) (Info, error) {
	actions := map[ActionID]adapter.ActionVersion{}
	info := Info{Digest: spec.DeclaredActions.Digest}
	for _, id := range slices.SortedFunc(maps.Keys(spec.DeclaredActions.Executors), compareActionIDs) {
		actions[id] = adapter.ActionVersion{Name: declaredVersion, Delete: matchAllDeleteAction{}}
		info.Actions = append(info.Actions, Action{Kind: id.Kind, Name: id.Name, Version: declaredVersion})
	}
	return c.activateSuccessor(p, successor{spec: spec, info: info, actions: actions})
}

// declaredExecutor returns what runs a declared action; nil if the plugin has a process, or no such
// action.
func (c *Catalog) declaredExecutor(pluginObject string, id adapter.ActionID) executor.Executor {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.plugins[pluginObject]
	if p == nil || p.spec.DeclaredActions == nil {
		return nil
	}
	return p.spec.DeclaredActions.Executors[id]
}

// ResumableExecutor returns what ends what any action of a declared plugin began, also one that it does
// not declare any more; nil if the plugin is not loaded or has a process, or if what its actions
// begin does not go on without the operator.
func (c *Catalog) ResumableExecutor(pluginObject string) executor.Resumable {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.plugins[pluginObject]
	if p == nil || p.spec.DeclaredActions == nil {
		return nil
	}
	return p.spec.DeclaredActions.Resumable
}

// matchAllDeleteAction is the DeleteAction of a declared action: which Backups it concerns is said by
// the selector in the Plugin alone.
type matchAllDeleteAction struct{}

// AppliesTo implements adapter.DeleteAction.
func (matchAllDeleteAction) AppliesTo(context.Context, grpc.ClientConnInterface, adapter.ItemCall) (labels.Selector, error) {
	return labels.Everything(), nil
}

// Execute implements adapter.DeleteAction. The executor of the action makes attempts.
func (matchAllDeleteAction) Execute(context.Context, grpc.ClientConnInterface, string, executor.Call) error {
	return process.ErrUnloaded
}

// noConnection is the connection of a plugin that has no process.
type noConnection struct{}

// Do implements caller.Connection.
func (noConnection) Do(ctx context.Context, _ process.Call, fn func(context.Context, grpc.ClientConnInterface, string) error) error {
	return fn(ctx, nil, "")
}
