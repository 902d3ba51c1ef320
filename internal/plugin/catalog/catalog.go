// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"sync"

	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/internal/plugin/process"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// Catalog holds the loaded plugins. It is safe for concurrent use; loads of
// different plugins do not wait for each other. Create it with New and end it with
// Close.
type Catalog struct {
	host  process.Host
	kinds []adapter.Kind
	// onChange is Options.OnChange.
	onChange func(plugin string)

	// giveUp is closed when open calls may no longer be waited for.
	giveUp chan struct{}
	once   sync.Once
	drains sync.WaitGroup

	mu      sync.Mutex
	plugins map[string]*plugin
	// claims are what the plugins register, and verdicts what that means for each.
	claims   map[string]claim
	verdicts map[string]verdict
	// tried has a channel for every plugin that was loaded or asked for; it is
	// closed when the first load has ended.
	tried map[string]chan struct{}
	// locations are those that have object stores, by their ids.
	locations map[string]*location
	closed    bool
}

// plugin is one Plugin object that Load was called for.
type plugin struct {
	// loading holds a token while a Load of this plugin is under way. Only that changes
	// what follows.
	loading chan struct{}
	binary  digested

	// What follows is guarded by the mutex of the Catalog, too.

	spec    Spec
	info    Info
	server  server
	actions map[adapter.ID]adapter.Version
	// refused is what was started last and could not take over, because another plugin
	// owns some of its actions; nil if that is not the case.
	refused *refusal
}

// refusal is what would be in service if it did not provide what another plugin owns.
type refusal struct {
	spec   Spec
	binary digested
	info   Info
}

// New returns an empty Catalog.
func New(opts Options) *Catalog {
	if opts.Redactor == nil {
		opts.Redactor = redact.New()
	}
	if opts.Kinds == nil {
		opts.Kinds = adapter.Kinds()
	}
	if opts.MaxMemory == 0 {
		opts.MaxMemory = process.ContainerMemory() / 2
	}
	return &Catalog{
		host: process.Host{
			Spawner: process.NewSpawner(), Logger: opts.Logger, Redactor: opts.Redactor, LogLevel: opts.LogLevel,
			Features: opts.Features, Env: opts.Env, LookupEnv: opts.LookupEnv, Now: opts.Now, OnExit: opts.OnExit,
			CallTimeout: opts.CallTimeout, Grace: opts.Grace, MaxMemory: opts.MaxMemory,
		},
		kinds: opts.Kinds, onChange: opts.OnChange,
		giveUp: make(chan struct{}), plugins: map[string]*plugin{}, claims: map[string]claim{},
		tried: map[string]chan struct{}{}, locations: map[string]*location{},
	}
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
	changed := c.settleLocked()
	c.mu.Unlock()
	c.tell(changed, name)
	for _, done := range drained {
		wait(ctx, done)
	}
}

// removeLocked takes a plugin out of the catalog and starts to drain its processes.
func (c *Catalog) removeLocked(name string) []<-chan struct{} {
	c.markTriedLocked(name) // nothing will come of it
	delete(c.tried, name)
	p := c.plugins[name]
	if p == nil {
		return nil
	}
	delete(c.plugins, name)
	delete(c.claims, name)
	old := p.server
	p.server, p.actions = nil, nil
	return append(c.dropStoresOfLocked(name), c.drain(old))
}

// drain ends a process once its open calls have ended. The channel it returns is
// closed then. It is called with the mutex held, so that Close cannot miss it.
func (c *Catalog) drain(s server) <-chan struct{} {
	if s == nil {
		return nil
	}
	done := make(chan struct{})
	c.drains.Go(func() {
		defer close(done)
		s.Close(c.giveUp)
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
