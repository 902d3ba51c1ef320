// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"fmt"
	"sync"

	"github.com/grapnel-dev/grapnel/internal/executor"
	executorprocess "github.com/grapnel-dev/grapnel/internal/executor/process"
	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/internal/plugin/process"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// Catalog holds the loaded plugins. It is safe for concurrent use; loads of
// different plugins do not wait for each other. Create it with New and end it with
// Close.
type Catalog struct {
	host process.Host

	// giveUp is closed when open calls may no longer be waited for.
	giveUp chan struct{}
	once   sync.Once
	drains sync.WaitGroup

	mu      sync.Mutex
	plugins map[string]*plugin
	// owners says which plugin provides an action.
	owners map[adapter.ID]string
	// tried has a channel for every plugin that was loaded or asked for; it is
	// closed when the first load has ended.
	tried  map[string]chan struct{}
	closed bool
}

// plugin is one Plugin object that Load was called for.
type plugin struct {
	// loading holds a token while a Load of this plugin is under way, which owns all
	// fields then.
	loading chan struct{}
	spec    Spec
	binary  digested
	info    Info

	// What follows is guarded by the mutex of the Catalog.

	process *process.Process
	hooks   map[adapter.ID]adapter.Hook
}

// New returns an empty Catalog.
func New(opts Options) *Catalog {
	if opts.Redactor == nil {
		opts.Redactor = redact.New()
	}
	return &Catalog{
		host: process.Host{
			Spawner: process.NewSpawner(), Logger: opts.Logger, Redactor: opts.Redactor, LogLevel: opts.LogLevel,
			Features: opts.Features, Env: opts.Env, LookupEnv: opts.LookupEnv, Now: opts.Now, OnExit: opts.OnExit,
			CallTimeout: opts.CallTimeout, Grace: opts.Grace,
		},
		giveUp: make(chan struct{}), plugins: map[string]*plugin{}, owners: map[adapter.ID]string{},
		tried: map[string]chan struct{}{},
	}
}

// Executor returns what runs an action of a loaded plugin. It stays valid when the
// plugin is loaded again; when the plugin is gone, its calls fail as Unreachable.
// Executor itself fails if there is no such plugin or action now.
func (c *Catalog) Executor(pluginObject, kind, action string) (executor.Executor, error) {
	id := adapter.ID{Kind: kind, Name: action}
	resolve := func() (executorprocess.Connection, adapter.Hook, error) {
		return c.resolve(pluginObject, id)
	}
	if _, _, err := resolve(); err != nil {
		return nil, err
	}
	return executorprocess.New(id, resolve, c.host.Redactor), nil
}

func (c *Catalog) resolve(pluginObject string, id adapter.ID) (executorprocess.Connection, adapter.Hook, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.plugins[pluginObject]
	if p == nil || p.process == nil {
		return nil, nil, fmt.Errorf("the plugin %q is not loaded: look at the conditions of the Plugin", pluginObject)
	}
	hook, ok := p.hooks[id]
	if !ok {
		return nil, nil, fmt.Errorf("the plugin %q does not provide %s: %w", pluginObject, id, executorprocess.ErrNoSuchAction)
	}
	return p.process, hook, nil
}

// Tried returns a channel that is closed once a Load of the plugin has ended, well
// or not. Until then, that a plugin is not there says nothing: an operator that has
// just started loads what the one before it had loaded.
func (c *Catalog) Tried(name string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.triedLocked(name)
}

func (c *Catalog) triedLocked(name string) chan struct{} {
	tried := c.tried[name]
	if tried == nil {
		tried = make(chan struct{})
		c.tried[name] = tried
	}
	return tried
}

// markTriedLocked wakes those that wait for a load.
func (c *Catalog) markTriedLocked(name string) {
	tried := c.triedLocked(name)
	select {
	case <-tried:
	default:
		close(tried)
	}
}

// Unload forgets a plugin at once and returns when its process has ended, which it
// does after its last open call, or when ctx has ended; the process then goes on to
// be drained. Unloading an unknown plugin does nothing.
func (c *Catalog) Unload(ctx context.Context, name string) {
	c.mu.Lock()
	drained := c.removeLocked(name)
	c.mu.Unlock()
	wait(ctx, drained)
}

// removeLocked takes a plugin out of the catalog and starts to drain its process.
func (c *Catalog) removeLocked(name string) <-chan struct{} {
	c.markTriedLocked(name) // nothing will come of it
	delete(c.tried, name)
	p := c.plugins[name]
	if p == nil {
		return nil
	}
	delete(c.plugins, name)
	for id, owner := range c.owners {
		if owner == name {
			delete(c.owners, id)
		}
	}
	old := p.process
	p.process, p.hooks = nil, nil
	return c.drain(old)
}

// drain ends a process once its open calls have ended. The channel it returns is
// closed then. It is called with the mutex held, so that Close cannot miss it.
func (c *Catalog) drain(p *process.Process) <-chan struct{} {
	if p == nil {
		return nil
	}
	done := make(chan struct{})
	c.drains.Go(func() {
		defer close(done)
		p.Close(c.giveUp)
	})
	return done
}

func wait(ctx context.Context, done <-chan struct{}) {
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Close unloads everything and refuses further loads. It waits for open calls until
// ctx ends and cuts off those that are left; no process remains when it returns.
func (c *Catalog) Close(ctx context.Context) {
	c.mu.Lock()
	c.closed = true
	for name := range c.plugins {
		c.removeLocked(name)
	}
	c.mu.Unlock()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		c.drains.Wait()
	}()
	wait(ctx, drained)
	c.once.Do(func() { close(c.giveUp) })
	<-drained
	c.host.Spawner.Close()
}
