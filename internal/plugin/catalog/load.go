// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/executor"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
)

// Load makes sure that a plugin runs as spec says and returns what it provides.
//
// A plugin whose actions are declared is in service immediately, and a later Load replaces
// its executors. The rest of this comment is about processes. An endpoint is treated as a
// process without a binary that the operator does not start; if it provides other actions
// than before, it has been upgraded.
//
// The first Load of a name starts the process. A later one with the same process and an
// unchanged binary only verifies the process, after starting it if it has ended; this is
// cheap. If either changed, a new process is started and takes over, while the old one ends
// after its last open call. If the new one cannot be started or provides an action that an
// older plugin provides, the old one stays.
//
// If an older plugin provides an action of a plugin that is in service, Load also fails,
// but the plugin stays in service: callers that name its Plugin can call it.
//
// A refused binary is not started again until it or the actions of other plugins change.
// Every Load verifies an endpoint: it may be served by another release.
//
// Every error is a *LoadError. If a plugin is refused because an older one provides the
// same action, Load also returns the Info that the plugin would have.
func (c *Catalog) Load(ctx context.Context, spec Spec) (Info, error) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.markLoadAttemptedLocked(spec.Name)
	}()
	p, err := c.acquireLoadLock(ctx, spec)
	if err != nil {
		return Info{}, err
	}
	defer func() { <-p.loadLock }()
	if spec.DeclaredActions != nil {
		return c.loadDeclaredActions(p, spec)
	}
	known := p.binary
	if p.lastRefused != nil {
		known = p.lastRefused.binary
	}
	binary, err := digestPlugin(spec, known)
	if err != nil {
		return Info{}, c.toLoadError(err)
	}
	if err := c.checkStillRefused(p, spec, binary); err != nil {
		return p.lastRefused.info, err
	}
	if current := c.currentServer(p); current != nil && p.spec.hasSameServer(spec) && p.binary.digest == binary.digest {
		err := current.EnsureReady(ctx)
		if hasRegistrationChanged(spec, err) {
			return c.replaceServer(ctx, p, spec, binary)
		}
		if err != nil {
			return Info{}, c.toLoadError(err)
		}
		p.binary = binary
		return c.updateWithoutRestart(p, spec)
	} else if current != nil && spec.HasOpenOperations && current.IsRunning() {
		info, err := c.updateWithoutRestart(p, spec)
		info.ReplacementPostponed = true
		return info, err
	}
	return c.replaceServer(ctx, p, spec, binary)
}

// checkStillRefused returns an error if the same plugin was refused before and would be
// refused again: then no process has to be started.
func (c *Catalog) checkStillRefused(p *pluginEntry, spec Spec, binary binaryDigest) error {
	if spec.Endpoint != nil {
		return nil // only a response shows what is served there now
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.ownerships[spec.Name]
	if p.lastRefused == nil || !v.isRefused() || !p.lastRefused.spec.hasSameServer(spec) || p.lastRefused.binary.digest != binary.digest {
		return nil
	}
	p.lastRefused.binary = binary
	return c.newDuplicateActionError(spec.Name, v)
}

// updateWithoutRestart records changes that do not affect the process, and returns the Info of the
// plugin.
func (c *Catalog) updateWithoutRestart(p *pluginEntry, spec Spec) (Info, error) {
	c.mu.Lock()
	if err := c.checkNotRemovedLocked(p, spec.Name); err != nil {
		c.mu.Unlock()
		return Info{}, err
	}
	p.spec.UID, p.spec.Generation, p.spec.Created, p.lastRefused = spec.UID, spec.Generation, spec.Created, nil
	c.registrations[spec.Name] = newRegistration(spec.Created, p.actions)
	changed := c.resolveOwnersLocked()
	info, v := p.info, c.ownerships[spec.Name]
	c.mu.Unlock()
	c.notifyChanged(changed, spec.Name)
	if v.isRefused() {
		return info, c.newDuplicateActionError(spec.Name, v)
	}
	info.ConflictingPlugins = v.conflictingPlugins
	return info, nil
}

// acquireLoadLock returns the plugin with a name for exclusive use by one Load.
func (c *Catalog) acquireLoadLock(ctx context.Context, spec Spec) (*pluginEntry, error) {
	if spec.Name == "" {
		return nil, &LoadError{Reason: string(host.ReasonInvalidSpec), Message: "the plugin has no name"}
	}
	for {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return nil, newClosingError()
		}
		p := c.plugins[spec.Name]
		if p == nil {
			p = &pluginEntry{loadLock: make(chan struct{}, 1)}
			c.plugins[spec.Name] = p
		}
		c.mu.Unlock()
		select {
		case p.loadLock <- struct{}{}:
		case <-ctx.Done():
			return nil, &LoadError{Reason: string(host.ReasonInterrupted), Message: "waiting for another load of the plugin was interrupted", Err: ctx.Err()}
		}
		if c.isCurrentEntry(spec.Name, p) {
			return p, nil
		}
		// The plugin was unloaded while we waited: start over with a new entry.
		<-p.loadLock
	}
}

func newClosingError() *LoadError {
	return &LoadError{Reason: ReasonClosed, Message: "the operator is stopping"}
}

func (c *Catalog) isCurrentEntry(name string, p *pluginEntry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plugins[name] == p
}

func (c *Catalog) currentServer(p *pluginEntry) host.Connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return p.server
}

// replaceServer starts a new process for a plugin, or connects to it, and activates it.
func (c *Catalog) replaceServer(ctx context.Context, p *pluginEntry, spec Spec, binary binaryDigest) (Info, error) {
	spec.Process = spec.Process.deepCopy()
	first := &registrationVerifier{kinds: c.kinds}
	next, err := c.newPluginServer(spec, first.verifyRegistration, c.settings.OnExit)
	if err != nil {
		return Info{}, c.toLoadError(err)
	}
	if err := next.EnsureReady(ctx); err != nil {
		next.Close(ctx.Done())
		return Info{}, c.toLoadError(err)
	}
	info := Info{
		Actions: first.listing.Actions, Ignored: c.redactLines(first.listing.Ignored),
		Digest: binary.digest, SDKVersion: c.redactLine(first.listing.SDKVersion),
	}
	info, err = c.activateSuccessor(p, successor{
		spec: spec, binary: binary, info: info, server: next, actions: pluginclient.SelectVersions(c.kinds, first.listing.Actions),
	})
	if err != nil {
		next.Close(ctx.Done())
	}
	return info, err
}

// successor is the next state of a plugin.
type successor struct {
	spec    Spec
	binary  binaryDigest
	info    Info
	server  host.Connection
	actions map[ActionID]pluginclient.ActionVersion
}

// activateSuccessor gives a plugin a new server unless another plugin owns one of the
// actions.
func (c *Catalog) activateSuccessor(p *pluginEntry, next successor) (Info, error) {
	c.mu.Lock()
	name := next.spec.Name
	if err := c.checkNotRemovedLocked(p, name); err != nil {
		c.mu.Unlock()
		return Info{}, err
	}
	c.registrations[name] = newRegistration(next.spec.Created, next.actions)
	v := decideOwnerships(c.registrations)[name]
	if v.isRefused() {
		p.lastRefused = &refusedLoad{spec: next.spec, binary: next.binary, info: next.info}
		c.registrations[name] = newRegistration(next.spec.Created, next.actions, p.actions)
	} else {
		c.startServerDrain(p.server)
		c.drainPluginStoresLocked(name)
		p.spec, p.info, p.server, p.actions, p.binary, p.lastRefused = next.spec, next.info, next.server, next.actions, next.binary, nil
	}
	changed := c.resolveOwnersLocked()
	c.mu.Unlock()
	c.notifyChanged(changed, name)
	if v.isRefused() {
		return next.info, c.newDuplicateActionError(name, v)
	}
	next.info.ConflictingPlugins = v.conflictingPlugins
	return next.info, nil
}

// checkNotRemovedLocked returns an error if a plugin that is being loaded is no longer wanted.
func (c *Catalog) checkNotRemovedLocked(p *pluginEntry, name string) error {
	switch {
	case c.closed:
		return newClosingError()
	case c.plugins[name] != p:
		return newRemovedError()
	default:
		return nil
	}
}

func newRemovedError() *LoadError {
	return &LoadError{Reason: string(host.ReasonUnloaded), Message: "the plugin was removed while it was being loaded"}
}

// registrationVerifier records what a plugin provided when it was loaded: a child started
// later must provide the same, because runs were planned with it. It is called by one
// goroutine at a time until the Load has ended, and only read after that.
type registrationVerifier struct {
	kinds []pluginclient.ActionKind

	hasListing bool
	listing    pluginclient.Listing
}

func (f *registrationVerifier) verifyRegistration(ctx context.Context, conn grpc.ClientConnInterface) (host.Capabilities, error) {
	listing, err := pluginclient.ListActions(ctx, conn, f.kinds)
	if err != nil {
		return host.Capabilities{}, err
	}
	if !f.hasListing {
		f.hasListing, f.listing = true, listing
	}
	if !slices.Equal(f.listing.Actions, listing.Actions) {
		return host.Capabilities{}, newRegistrationChangedError()
	}
	if listing.BuiltWithVelero {
		err = pluginclient.WarmUpHandlers(ctx, conn, f.kinds, listing.Actions)
	}
	return host.Capabilities{MarksLogEnd: listing.MarksLogEnd}, err
}

func newRegistrationChangedError() error {
	return &host.StartError{
		Reason:  ReasonRegistrationChanged,
		Message: "it provides other actions than when it was loaded: check whether its binary was replaced",
	}
}

// toLoadError turns any error of a load into a *LoadError.
func (c *Catalog) toLoadError(err error) error {
	var load *LoadError
	var start *host.StartError
	var list *pluginclient.ListError
	out := &LoadError{Reason: string(host.ReasonStartFailed), Message: "it could not be started", Err: err}
	switch {
	case errors.As(err, &load):
		return load
	case errors.As(err, &start):
		out.Reason, out.Message = string(start.Reason), start.Message
	case errors.As(err, &list):
		out.Reason, out.Message = list.Reason, list.Message
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		out.Reason, out.Message = string(host.ReasonInterrupted), "loading the plugin was interrupted"
	}
	out.Message = c.redactLine(out.Message)
	return out
}

// redactLine makes text safe for a status.
func (c *Catalog) redactLine(text string) string {
	return executor.OneLine(c.settings.Redactor.String(text))
}

func (c *Catalog) redactLines(texts []string) []string {
	var out []string
	for _, text := range texts {
		out = append(out, c.redactLine(text))
	}
	return out
}
