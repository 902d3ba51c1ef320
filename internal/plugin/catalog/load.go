// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/internal/plugin/process"
)

// Load makes sure that a plugin runs as spec says and returns what it provides.
//
// A plugin whose actions are declared is in service at once, and a later Load replaces its
// executors. What follows is about processes; an endpoint is a process without a binary, that
// somebody else starts, and one that provides other actions than before has been upgraded.
//
// The first Load of a name starts the process. A later one with the same process
// and an unchanged binary only asks the process again, after starting it if it has
// ended; this is cheap. If either changed, a new process is started and takes over,
// while the old one ends after its last open call. If the new one cannot be started
// or provides an action that an older plugin provides, the old one stays.
//
// If an older plugin provides an action of one that is in service, Load fails as well,
// and yet that one stays: whoever names its Plugin can call it.
//
// A binary that was refused is not started again before it changes, or what the others
// provide. An endpoint is asked by every Load: it may be served by another release.
//
// Every error is a *LoadError. With that of a plugin that is refused because an older one
// provides the same comes the Info of what it would provide.
func (c *Catalog) Load(ctx context.Context, spec Spec) (Info, error) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.markTriedLocked(spec.Name)
	}()
	p, err := c.begin(ctx, spec)
	if err != nil {
		return Info{}, err
	}
	defer func() { <-p.loading }()
	if spec.Declared != nil {
		return c.declare(p, spec)
	}
	known := p.binary
	if p.refused != nil {
		known = p.refused.binary
	}
	binary, err := digest(spec, known)
	if err != nil {
		return Info{}, c.loadError(err)
	}
	if err := c.stillRefused(p, spec, binary); err != nil {
		return p.refused.info, err
	}
	if current := c.current(p); current != nil && p.spec.sameServer(spec) && p.binary.digest == binary.digest {
		err := current.Ensure(ctx)
		if otherActions(spec, err) {
			return c.replace(ctx, p, spec, binary)
		}
		if err != nil {
			return Info{}, c.loadError(err)
		}
		p.binary = binary
		return c.keep(p, spec)
	} else if current != nil && spec.Busy && current.Running() {
		info, err := c.keep(p, spec)
		info.Postponed = true
		return info, err
	}
	return c.replace(ctx, p, spec, binary)
}

// stillRefused returns an error if the same was refused before and would be refused
// again: then nothing has to be started to find that out.
func (c *Catalog) stillRefused(p *plugin, spec Spec, binary digested) error {
	if spec.Endpoint != nil {
		return nil // only an answer tells what is served there now
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.verdicts[spec.Name]
	if p.refused == nil || !v.refused() || !p.refused.spec.sameServer(spec) || p.refused.binary.digest != binary.digest {
		return nil
	}
	p.refused.binary = binary
	return c.duplicate(spec.Name, v)
}

// keep notes what changed without consequences for the process, and returns what is to
// be said about the plugin.
func (c *Catalog) keep(p *plugin, spec Spec) (Info, error) {
	c.mu.Lock()
	if err := c.checkLocked(p, spec.Name); err != nil {
		c.mu.Unlock()
		return Info{}, err
	}
	p.spec.UID, p.spec.Generation, p.spec.Created, p.refused = spec.UID, spec.Generation, spec.Created, nil
	c.claims[spec.Name] = claimOf(spec.Created, p.actions)
	changed := c.settleLocked()
	info, v := p.info, c.verdicts[spec.Name]
	c.mu.Unlock()
	c.tell(changed, spec.Name)
	if v.refused() {
		return info, c.duplicate(spec.Name, v)
	}
	info.Rivals = v.rivals
	return info, nil
}

// begin returns the plugin of a name for the use of one Load at a time.
func (c *Catalog) begin(ctx context.Context, spec Spec) (*plugin, error) {
	if spec.Name == "" {
		return nil, &LoadError{Reason: string(process.ReasonInvalidSpec), Message: "the plugin has no name"}
	}
	for {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return nil, errClosing()
		}
		p := c.plugins[spec.Name]
		if p == nil {
			p = &plugin{loading: make(chan struct{}, 1)}
			c.plugins[spec.Name] = p
		}
		c.mu.Unlock()
		select {
		case p.loading <- struct{}{}:
		case <-ctx.Done():
			return nil, &LoadError{Reason: string(process.ReasonInterrupted), Message: "waiting for another load of the plugin was interrupted", Err: ctx.Err()}
		}
		if c.present(spec.Name, p) {
			return p, nil
		}
		// It was unloaded while we waited: start again with a new one.
		<-p.loading
	}
}

func errClosing() *LoadError {
	return &LoadError{Reason: ReasonClosed, Message: "the operator is stopping"}
}

func (c *Catalog) present(name string, p *plugin) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plugins[name] == p
}

func (c *Catalog) current(p *plugin) server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return p.server
}

// replace starts a new process for a plugin, or connects to it, and lets that take over.
func (c *Catalog) replace(ctx context.Context, p *plugin, spec Spec, binary digested) (Info, error) {
	spec.Process = spec.Process.clone()
	first := &firstListing{kinds: c.kinds}
	next, err := c.newServer(spec, first.verify, c.host.OnExit)
	if err != nil {
		return Info{}, c.loadError(err)
	}
	if err := next.Ensure(ctx); err != nil {
		next.Close(ctx.Done())
		return Info{}, c.loadError(err)
	}
	info := Info{
		Actions: first.listing.Actions, Ignored: c.cleanAll(first.listing.Ignored),
		Digest: binary.digest, SDKVersion: c.clean(first.listing.SDKVersion),
	}
	info, err = c.takeOver(p, successor{
		spec: spec, binary: binary, info: info, server: next, actions: adapter.Choose(c.kinds, first.listing.Actions),
	})
	if err != nil {
		next.Close(ctx.Done())
	}
	return info, err
}

// successor is what a plugin becomes.
type successor struct {
	spec    Spec
	binary  digested
	info    Info
	server  server
	actions map[ActionID]adapter.Version
}

// takeOver gives a plugin a new server unless another plugin owns one of the
// actions.
func (c *Catalog) takeOver(p *plugin, next successor) (Info, error) {
	c.mu.Lock()
	name := next.spec.Name
	if err := c.checkLocked(p, name); err != nil {
		c.mu.Unlock()
		return Info{}, err
	}
	c.claims[name] = claimOf(next.spec.Created, next.actions)
	v := judge(c.claims)[name]
	if v.refused() {
		p.refused = &refusal{spec: next.spec, binary: next.binary, info: next.info}
		c.claims[name] = claimOf(next.spec.Created, next.actions, p.actions)
	} else {
		c.drain(p.server)
		c.dropStoresOfLocked(name)
		p.spec, p.info, p.server, p.actions, p.binary, p.refused = next.spec, next.info, next.server, next.actions, next.binary, nil
	}
	changed := c.settleLocked()
	c.mu.Unlock()
	c.tell(changed, name)
	if v.refused() {
		return next.info, c.duplicate(name, v)
	}
	next.info.Rivals = v.rivals
	return next.info, nil
}

// checkLocked returns an error if a plugin that is being loaded is no longer wanted.
func (c *Catalog) checkLocked(p *plugin, name string) error {
	switch {
	case c.closed:
		return errClosing()
	case c.plugins[name] != p:
		return errRemoved()
	default:
		return nil
	}
}

func errRemoved() *LoadError {
	return &LoadError{Reason: string(process.ReasonClosed), Message: "the plugin was removed while it was being loaded"}
}

// firstListing remembers what a plugin provided when it was loaded: a child started
// later has to provide the same, because plans were made with it. It is called by
// one goroutine at a time until the Load has ended, and only read after that.
type firstListing struct {
	kinds []adapter.Kind

	known   bool
	listing adapter.Listing
}

func (f *firstListing) verify(ctx context.Context, conn grpc.ClientConnInterface) (process.Abilities, error) {
	listing, err := adapter.List(ctx, conn, f.kinds)
	if err != nil {
		return process.Abilities{}, err
	}
	if !f.known {
		f.known, f.listing = true, listing
	}
	if !slices.Equal(f.listing.Actions, listing.Actions) {
		return process.Abilities{}, errRegistrationChanged()
	}
	if listing.Velero {
		err = adapter.Prime(ctx, conn, f.kinds, listing.Actions)
	}
	return process.Abilities{LogEnd: listing.LogEnd}, err
}

func errRegistrationChanged() error {
	return &process.StartError{
		Reason:  ReasonRegistrationChanged,
		Message: "it provides other actions than when it was loaded: check whether its binary was replaced",
	}
}

// loadError turns any error of a load into a *LoadError.
func (c *Catalog) loadError(err error) error {
	var load *LoadError
	var start *process.StartError
	var list *adapter.ListError
	out := &LoadError{Reason: string(process.ReasonStartFailed), Message: "it could not be started", Err: err}
	switch {
	case errors.As(err, &load):
		return load
	case errors.As(err, &start):
		out.Reason, out.Message = string(start.Reason), start.Message
	case errors.As(err, &list):
		out.Reason, out.Message = list.Reason, list.Message
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		out.Reason, out.Message = string(process.ReasonInterrupted), "loading the plugin was interrupted"
	}
	out.Message = c.clean(out.Message)
	return out
}

// clean makes text fit for a status.
func (c *Catalog) clean(text string) string {
	return executor.OneLine(c.host.Redactor.String(text))
}

func (c *Catalog) cleanAll(texts []string) []string {
	var out []string
	for _, text := range texts {
		out = append(out, c.clean(text))
	}
	return out
}
