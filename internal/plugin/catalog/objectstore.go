// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/internal/plugin/caller"
	"github.com/grapnel-dev/grapnel/internal/plugin/process"
	"github.com/grapnel-dev/grapnel/sdk"
)

// StoreSpec describes an ObjectStore that a plugin keeps for one location.
type StoreSpec struct {
	// Plugin is the name of the Plugin object, Name the registered name of the store.
	Plugin, Name string
	// Location identifies the location: its UID.
	Location string
	// Config is what the store is configured with. Values whose names say that they are
	// secret are kept out of logs and errors.
	Config map[string]string
}

// locationStores is what the stores of one location have in common.
type locationStores struct {
	// released says that the location is gone. Its stores cannot be called any more.
	released bool
	// stores has the process of every configuration in use, by its fingerprint.
	stores map[string]*objectStore
}

// objectStore is one process that serves a location, or one connection to an endpoint.
type objectStore struct {
	plugin string
	server server
}

// ObjectStore returns how to reach an ObjectStore, for caller.New. It starts nothing and
// may be asked for before the plugin is loaded: calls fail as long as there is no such
// plugin or store.
//
// Velero's plugins keep one configuration per store and process, so every location has
// a process of its own. Behind an endpoint it is a connection: package serve of the SDK keeps
// a store for each. It is started by the first call and configured, with Init,
// before any other call, also when it is started again. It is kept, and ended after its
// last open call when the plugin's binary or specification changes (the next call
// starts another one), when ObjectStore is called for the location with something else
// in spec, or by ReleaseStore, Unload or Close.
//
// What was returned for an older spec of the location goes on to reach a store of that
// spec: a run never finds itself in another bucket than it began in. A configuration
// that the store refuses is an error of the call, whose *process.StartError has the
// reason ReasonInitFailed.
func (c *Catalog) ObjectStore(spec StoreSpec) caller.ResolveFunc[adapter.ObjectStore] {
	for name, value := range spec.Config {
		if c.host.Redactor.IsSensitive(name) {
			c.host.Redactor.AddValues(value)
		}
	}
	key := storeSpecKey(spec)
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.locations[spec.Location]
	if at == nil {
		at = &locationStores{stores: map[string]*objectStore{}}
		c.locations[spec.Location] = at
	}
	c.drainStoresLocked(at, func(other string, _ *objectStore) bool { return other != key })
	return func() (caller.Connection, adapter.ObjectStore, error) {
		return c.resolveStore(at, key, spec)
	}
}

// ReleaseStore ends the processes of a location that is gone. It returns when they have
// ended, which they do after their last open call, or when ctx has ended.
func (c *Catalog) ReleaseStore(ctx context.Context, id string) {
	c.mu.Lock()
	var drained []<-chan struct{}
	if at := c.locations[id]; at != nil {
		at.released = true
		drained = c.drainStoresLocked(at, func(string, *objectStore) bool { return true })
		delete(c.locations, id)
	}
	c.mu.Unlock()
	for _, done := range drained {
		waitForDrain(ctx, done)
	}
}

// drainStoresLocked starts to drain the stores of a location that drop says.
func (c *Catalog) drainStoresLocked(at *locationStores, drop func(key string, s *objectStore) bool) []<-chan struct{} {
	var drained []<-chan struct{}
	for key, s := range at.stores {
		if drop(key, s) {
			delete(at.stores, key)
			drained = append(drained, c.startServerDrain(s.server))
		}
	}
	return drained
}

// drainPluginStoresLocked starts to drain the stores of a plugin.
func (c *Catalog) drainPluginStoresLocked(plugin string) []<-chan struct{} {
	var drained []<-chan struct{}
	for _, at := range c.locations {
		drained = append(drained, c.drainStoresLocked(at, func(_ string, s *objectStore) bool { return s.plugin == plugin })...)
	}
	return drained
}

// storeSpecKey tells specifications apart.
func storeSpecKey(spec StoreSpec) string {
	encoded, err := json.Marshal(spec) // maps are sorted
	if err != nil {
		panic(err) // strings only
	}
	return string(encoded)
}

func (c *Catalog) resolveStore(at *locationStores, key string, spec StoreSpec) (caller.Connection, adapter.ObjectStore, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.released {
		return nil, nil, errors.New("the location of the object store was removed")
	}
	p, version, err := c.findActionLocked(spec.Plugin, adapter.ActionID{Kind: string(sdk.KindObjectStore), Name: spec.Name})
	if err != nil {
		return nil, nil, err
	}
	if s := at.stores[key]; s != nil {
		return c.wrapWithFence(s.server), version.ObjectStore, nil
	}
	// Whether the store works is the business of its location, not of the Plugin: it is told
	// nothing.
	next, err := c.newPluginServer(p.spec, c.newStoreVerifier(spec, version.ObjectStore, p.info.Actions), nil)
	if err != nil {
		return nil, nil, err
	}
	at.stores[key] = &objectStore{plugin: spec.Plugin, server: next}
	return c.wrapWithFence(next), version.ObjectStore, nil
}

// newStoreVerifier returns what makes a new process ready for calls: it has to provide what
// was provided when the plugin was loaded, and to accept its configuration.
func (c *Catalog) newStoreVerifier(
	spec StoreSpec, calls adapter.ObjectStore, actions []Action,
) func(context.Context, grpc.ClientConnInterface) (process.Capabilities, error) {
	return func(ctx context.Context, conn grpc.ClientConnInterface) (process.Capabilities, error) {
		listing, err := adapter.ListActions(ctx, conn, c.kinds)
		if err != nil {
			return process.Capabilities{}, err
		}
		if !slices.Equal(actions, listing.Actions) {
			return process.Capabilities{}, newRegistrationChangedError()
		}
		err = calls.Init(ctx, conn, adapter.ItemCall{Action: spec.Name}, spec.Config)
		if err != nil && ctx.Err() == nil && status.Code(err) != codes.Unavailable {
			err = &process.StartError{Reason: ReasonInitFailed, Err: err, Message: c.redactLine(fmt.Sprintf(
				"the object store %q refused its configuration: %s", spec.Name, status.Convert(err).Message()))}
		}
		return process.Capabilities{MarksLogEnd: listing.MarksLogEnd}, err
	}
}
