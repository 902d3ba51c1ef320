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

	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/sdk"
)

// StoreSpec describes an ObjectStore of a plugin for one location.
type StoreSpec struct {
	// Plugin is the name of the Plugin object, Name the registered name of the store.
	Plugin, Name string
	// Location identifies the location: its UID.
	Location string
	// Config is the configuration of the store. Values whose names say that they are secret
	// are redacted in logs and errors.
	Config map[string]string
}

// locationStores has the stores of one location.
type locationStores struct {
	// released is true if the location was removed. Its stores can no longer be called.
	released bool
	// stores has the process of every configuration in use, by fingerprint.
	stores map[string]*objectStore
}

// objectStore is one process that serves a location, or one connection to an endpoint.
type objectStore struct {
	plugin string
	server host.Connection
}

// ObjectStore returns the resolver of an ObjectStore, for pluginclient.NewCaller. It starts nothing and
// may be called before the plugin is loaded: calls to the store fail as long as there is no
// such plugin or store.
//
// Velero's plugins have one configuration per store and process, so every location has its
// own process. For an endpoint it is a connection: package serve of the SDK has a store for
// each. The first call starts the process and configures it, with Init, before any other
// call. This is repeated after a restart. The process is stopped after its last open call
// when the plugin's binary or specification changes (the next call starts another one), when
// ObjectStore is called for the location with a different spec, or by ReleaseStore, Unload or
// Close.
//
// The result for an older spec of the location still reaches a store with that spec: a run
// never ends up in a different bucket. If the store refuses a configuration, the call
// returns a *host.StartError with the reason ReasonInitFailed.
func (c *Catalog) ObjectStore(spec StoreSpec) pluginclient.ResolveFunc[pluginclient.ObjectStore] {
	for name, value := range spec.Config {
		if c.settings.Redactor.IsSensitive(name) {
			c.settings.Redactor.AddValues(value)
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
	return func() (pluginclient.Connection, pluginclient.ObjectStore, error) {
		return c.resolveStore(at, key, spec)
	}
}

// ReleaseStore stops the processes of a removed location. It returns when they have ended,
// after their last open call, or when ctx has ended.
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

// drainStoresLocked starts to drain the stores of a location that drop selects.
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

// storeSpecKey returns the key of a specification.
func storeSpecKey(spec StoreSpec) string {
	encoded, err := json.Marshal(spec) // maps are sorted
	if err != nil {
		panic(err) // strings only
	}
	return string(encoded)
}

func (c *Catalog) resolveStore(at *locationStores, key string, spec StoreSpec) (pluginclient.Connection, pluginclient.ObjectStore, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.released {
		return nil, nil, errors.New("the location of the object store was removed")
	}
	p, version, err := c.findActionLocked(spec.Plugin, pluginclient.ActionID{Kind: string(sdk.KindObjectStore), Name: spec.Name})
	if err != nil {
		return nil, nil, err
	}
	if s := at.stores[key]; s != nil {
		return c.wrapWithFence(s.server), version.ObjectStore, nil
	}
	// The location reports whether the store works, not the Plugin: OnExit is not called.
	next, err := c.newPluginServer(p.spec, c.newStoreVerifier(spec, version.ObjectStore, p.info.Actions), nil)
	if err != nil {
		return nil, nil, err
	}
	at.stores[key] = &objectStore{plugin: spec.Plugin, server: next}
	return c.wrapWithFence(next), version.ObjectStore, nil
}

// newStoreVerifier returns the function that prepares a new process for calls: the process
// must provide the same actions as when the plugin was loaded, and must accept its
// configuration.
func (c *Catalog) newStoreVerifier(
	spec StoreSpec, calls pluginclient.ObjectStore, actions []Action,
) host.VerifyFunc {
	return func(ctx context.Context, conn grpc.ClientConnInterface) (host.Capabilities, error) {
		listing, err := pluginclient.ListActions(ctx, conn, c.kinds)
		if err != nil {
			return host.Capabilities{}, err
		}
		if !slices.Equal(actions, listing.Actions) {
			return host.Capabilities{}, newRegistrationChangedError()
		}
		err = calls.Init(ctx, pluginclient.ItemCall{Conn: conn, Action: spec.Name}, spec.Config)
		if err != nil && ctx.Err() == nil && status.Code(err) != codes.Unavailable {
			err = &host.StartError{Reason: ReasonInitFailed, Err: err, Message: c.redactLine(fmt.Sprintf(
				"the object store %q refused its configuration: %s", spec.Name, status.Convert(err).Message()))}
		}
		return host.Capabilities{MarksLogEnd: listing.MarksLogEnd}, err
	}
}
