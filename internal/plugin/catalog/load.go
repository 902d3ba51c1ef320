// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/internal/plugin/process"
)

// Load makes sure that a plugin runs as spec says and returns what it provides.
//
// The first Load of a name starts the process. A later one with the same process
// and an unchanged binary only asks the process again, after starting it if it has
// ended; this is cheap. If either changed, a new process is started and takes over,
// while the old one ends after its last open call. If the new one cannot be started
// or provides an action that another plugin provides, the old one stays.
//
// Every error is a *LoadError.
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
	binary, err := digestOf(spec.Process.Path, p.binary)
	if err != nil {
		return Info{}, c.loadError(err)
	}
	if current := c.current(p); current != nil && p.spec.Process.equal(spec.Process) && p.binary.digest == binary.digest {
		if err := current.Ensure(ctx); err != nil {
			return Info{}, c.loadError(err)
		}
		p.spec.UID, p.spec.Generation, p.binary = spec.UID, spec.Generation, binary
		return p.info, nil
	}
	return c.replace(ctx, p, spec, binary)
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

func (c *Catalog) current(p *plugin) *process.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return p.process
}

// replace starts a new process for a plugin and lets it take over.
func (c *Catalog) replace(ctx context.Context, p *plugin, spec Spec, binary digested) (Info, error) {
	spec.Process = spec.Process.clone()
	first := &firstListing{}
	next, err := process.New(c.host, process.Config{
		Name: spec.Name, Path: spec.Process.Path, Args: spec.Process.Args, Env: spec.Process.Env,
		StartTimeout: spec.Process.StartTimeout, Verify: first.verify,
	})
	if err != nil {
		return Info{}, c.loadError(err)
	}
	if err := next.Ensure(ctx); err != nil {
		next.Close(ctx.Done())
		return Info{}, c.loadError(err)
	}
	hooks := adapter.Hooks(first.listing.Actions)
	if err := c.takeOver(p, spec.Name, next, hooks); err != nil {
		next.Close(ctx.Done())
		return Info{}, err
	}
	p.spec, p.binary = spec, binary
	p.info = Info{Actions: first.listing.Actions, Digest: binary.digest, SDKVersion: c.clean(first.listing.SDKVersion)}
	return p.info, nil
}

// takeOver gives a plugin a new process unless another plugin owns one of the
// actions.
func (c *Catalog) takeOver(p *plugin, name string, next *process.Process, hooks map[adapter.ID]adapter.Hook) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosing()
	}
	if c.plugins[name] != p {
		return &LoadError{Reason: string(process.ReasonClosed), Message: "the plugin was removed while it was being loaded"}
	}
	var taken []string
	for id := range hooks {
		if owner, ok := c.owners[id]; ok && owner != name {
			taken = append(taken, fmt.Sprintf("%s is provided by the plugin %q already", id, owner))
		}
	}
	if len(taken) > 0 {
		slices.Sort(taken)
		return &LoadError{Reason: ReasonDuplicateAction, Message: c.clean(fmt.Sprintf(
			"%s and may not be provided by %q as well: remove one of the two Plugins", taken[0], name))}
	}
	for id, owner := range c.owners {
		if owner == name {
			delete(c.owners, id)
		}
	}
	for id := range hooks {
		c.owners[id] = name
	}
	c.drain(p.process)
	p.process, p.hooks = next, hooks
	return nil
}

// firstListing remembers what a plugin provided when it was loaded: a child started
// later has to provide the same, because plans were made with it. It is called by
// one goroutine at a time until the Load has ended, and only read after that.
type firstListing struct {
	known   bool
	listing adapter.Listing
}

func (f *firstListing) verify(ctx context.Context, conn grpc.ClientConnInterface) (process.Abilities, error) {
	listing, err := adapter.List(ctx, conn)
	if err != nil {
		return process.Abilities{}, err
	}
	if !f.known {
		f.known, f.listing = true, listing
	}
	if !slices.Equal(f.listing.Actions, listing.Actions) {
		return process.Abilities{}, &process.StartError{
			Reason:  ReasonRegistrationChanged,
			Message: "it provides other actions than when it was loaded: check whether its binary was replaced",
		}
	}
	return process.Abilities{LogEnd: listing.LogEnd}, nil
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
