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

// Declared are the actions of a plugin that has no process: nothing announces them, and each
// is run by an executor.
type Declared struct {
	// Executors run the actions: hooks and DeleteActions.
	Executors map[ActionID]executor.Executor
	// Resumer ends what any action of the plugin began, also one that is not declared any
	// more; nil if nothing goes on without the operator. Nothing is executed by it.
	Resumer executor.Resumer
	// Digest changes whenever the executors do something else.
	Digest string
}

// declaredVersion is the version of declared actions: what an executor is told and answers is
// the first version of each kind.
const declaredVersion = "v1"

// declare puts a plugin in service that has no process.
func (c *Catalog) declare(p *plugin, spec Spec) (Info, error) {
	actions := map[ActionID]adapter.Version{}
	info := Info{Digest: spec.Declared.Digest}
	for _, id := range slices.SortedFunc(maps.Keys(spec.Declared.Executors), compareIDs) {
		actions[id] = adapter.Version{Name: declaredVersion, Delete: everything{}}
		info.Actions = append(info.Actions, Action{Kind: id.Kind, Name: id.Name, Version: declaredVersion})
	}
	return c.takeOver(p, successor{spec: spec, info: info, actions: actions})
}

// declared returns what runs a declared action; nil if the plugin has a process, or no such
// action.
func (c *Catalog) declared(pluginObject string, id adapter.ID) executor.Executor {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.plugins[pluginObject]
	if p == nil || p.spec.Declared == nil {
		return nil
	}
	return p.spec.Declared.Executors[id]
}

// Resumer returns what ends what any action of a declared plugin began, also one that it does
// not declare any more; nil if the plugin is not loaded or has a process, or if what its actions
// begin does not go on without the operator.
func (c *Catalog) Resumer(pluginObject string) executor.Resumer {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.plugins[pluginObject]
	if p == nil || p.spec.Declared == nil {
		return nil
	}
	return p.spec.Declared.Resumer
}

// everything is the DeleteAction of a declared action: which Backups it concerns is said by
// the selector in the Plugin alone.
type everything struct{}

// AppliesTo implements adapter.DeleteAction.
func (everything) AppliesTo(context.Context, grpc.ClientConnInterface, adapter.ItemCall) (labels.Selector, error) {
	return labels.Everything(), nil
}

// Execute implements adapter.DeleteAction. The executor of the action makes attempts.
func (everything) Execute(context.Context, grpc.ClientConnInterface, string, executor.Call) error {
	return process.ErrClosed
}

// nowhere is the connection of a plugin that has no process.
type nowhere struct{}

// Do implements caller.Connection.
func (nowhere) Do(ctx context.Context, _ process.Call, fn func(context.Context, grpc.ClientConnInterface, string) error) error {
	return fn(ctx, nil, "")
}
