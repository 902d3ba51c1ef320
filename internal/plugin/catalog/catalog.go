// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"sync"

	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// Catalog holds the loaded plugins. It is safe for concurrent use; loads of different
// plugins do not wait for each other. Create it with New and close it with Close.
type Catalog struct {
	settings host.Settings
	kinds    []pluginclient.ActionKind
	// onChange is Options.OnChange, and fence Options.Fence.
	onChange func(plugin string)
	fence    func(context.Context) error

	// abortDrain is closed when open calls must not be waited for any longer.
	abortDrain chan struct{}
	abortOnce  sync.Once
	drainGroup sync.WaitGroup

	mu      sync.Mutex
	plugins map[string]*pluginEntry
	// registrations are the registrations of the plugins, verdicts the resulting ownership
	// of each.
	registrations map[string]registration
	ownerships    map[string]ownership
	// loadAttempted has a channel for every plugin that was loaded or passed to
	// LoadAttempted; it is closed when the first load has ended.
	loadAttempted map[string]chan struct{}
	// locations are the locations that have object stores, by ID.
	locations map[string]*locationStores
	closed    bool
}

// pluginEntry is one Plugin object that Load was called for.
type pluginEntry struct {
	// loadLock holds a token while a Load of this plugin is in progress. Only that Load
	// changes the following fields.
	loadLock chan struct{}
	binary   binaryDigest

	// The following fields are also guarded by the mutex of the Catalog.

	spec    Spec
	info    Info
	server  host.Connection
	actions map[pluginclient.ActionID]pluginclient.ActionVersion
	// lastRefused is the server that was started last if it could not take over because
	// another plugin owns some of its actions; otherwise nil.
	lastRefused *refusedLoad
}

// refusedLoad is a load that was refused because another plugin owns some of its actions.
type refusedLoad struct {
	spec   Spec
	binary binaryDigest
	info   Info
}

// New returns an empty Catalog.
func New(opts Options) *Catalog {
	if opts.Redactor == nil {
		opts.Redactor = redact.New()
	}
	if opts.Kinds == nil {
		opts.Kinds = pluginclient.SupportedKinds()
	}
	if opts.MaxMemory == 0 {
		opts.MaxMemory = host.ContainerMemoryLimit() / 2
	}
	return &Catalog{
		settings: host.Settings{
			Spawner: host.NewSpawner(), Logger: opts.Logger, Redactor: opts.Redactor, LogLevel: opts.LogLevel,
			Features: opts.Features, Env: opts.Env, LookupEnv: opts.LookupEnv, Now: opts.Now, OnExit: opts.OnExit,
			Grace: opts.Grace, MaxMemory: opts.MaxMemory,
		},
		kinds: opts.Kinds, onChange: opts.OnChange, fence: opts.Fence,
		abortDrain: make(chan struct{}), plugins: map[string]*pluginEntry{}, registrations: map[string]registration{},
		loadAttempted: map[string]chan struct{}{}, locations: map[string]*locationStores{},
	}
}

// LoadAttempted returns a channel that is closed once a Load of the plugin has ended,
// successfully or not. Until then, a missing plugin may still be loaded: an operator that
// has just started loads the plugins again.
func (c *Catalog) LoadAttempted(name string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.loadAttemptedLocked(name)
}

func (c *Catalog) loadAttemptedLocked(name string) chan struct{} {
	tried := c.loadAttempted[name]
	if tried == nil {
		tried = make(chan struct{})
		c.loadAttempted[name] = tried
	}
	return tried
}

// markLoadAttemptedLocked wakes the goroutines that wait for a load.
func (c *Catalog) markLoadAttemptedLocked(name string) {
	tried := c.loadAttemptedLocked(name)
	select {
	case <-tried:
	default:
		close(tried)
	}
}

// Unload removes a plugin immediately and returns when its process has ended, after its
// last open call, or when ctx has ended; then draining the process continues. Unloading an
// unknown plugin does nothing.
func (c *Catalog) Unload(ctx context.Context, name string) {
	c.mu.Lock()
	drained := c.removePluginLocked(name)
	changed := c.resolveOwnersLocked()
	c.mu.Unlock()
	c.notifyChanged(changed, name)
	for _, done := range drained {
		waitForDrain(ctx, done)
	}
}

// removePluginLocked removes a plugin from the catalog and starts to drain its processes.
func (c *Catalog) removePluginLocked(name string) []<-chan struct{} {
	c.markLoadAttemptedLocked(name) // the load will not succeed
	delete(c.loadAttempted, name)
	p := c.plugins[name]
	if p == nil {
		return nil
	}
	delete(c.plugins, name)
	delete(c.registrations, name)
	old := p.server
	p.server, p.actions = nil, nil
	return append(c.drainPluginStoresLocked(name), c.startServerDrain(old))
}

// startServerDrain stops a process once its open calls have ended. The returned channel is
// closed then. It is called with the mutex held, so that Close cannot miss it.
func (c *Catalog) startServerDrain(s host.Connection) <-chan struct{} {
	if s == nil {
		return nil
	}
	done := make(chan struct{})
	c.drainGroup.Go(func() {
		defer close(done)
		s.Close(c.abortDrain)
	})
	return done
}

func waitForDrain(ctx context.Context, done <-chan struct{}) {
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Close unloads everything and rejects further loads. It waits for open calls until ctx
// ends and cuts off the remaining ones; no process remains when it returns.
func (c *Catalog) Close(ctx context.Context) {
	c.mu.Lock()
	c.closed = true
	for name := range c.plugins {
		c.removePluginLocked(name)
	}
	c.mu.Unlock()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		c.drainGroup.Wait()
	}()
	waitForDrain(ctx, drained)
	c.abortOnce.Do(func() { close(c.abortDrain) })
	<-drained
	c.settings.Spawner.Close()
}
