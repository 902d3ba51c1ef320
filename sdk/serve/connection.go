// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"sync"

	"google.golang.org/grpc/stats"
)

// connection is the connection of one client of a plugin that serves at an address. It is
// nil for a plugin that the operator starts, which has only one client. It is safe for
// concurrent use.
type connection struct {
	mu         sync.Mutex
	closed     bool
	closeHooks []func()
}

// connectionKey is the context key of the connection of a call.
type connectionKey struct{}

// connectionFromContext returns the connection of a call.
func connectionFromContext(ctx context.Context) *connection {
	at, _ := ctx.Value(connectionKey{}).(*connection)
	return at
}

// addCloseHook calls do in its own goroutine when the connection has ended, or immediately
// if it already has. The connection of a plugin that the operator starts ends with the
// process.
func (c *connection) addCloseHook(do func()) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		go do() // the caller may hold a lock that do needs
		return
	}
	c.closeHooks = append(c.closeHooks, do)
}

func (c *connection) runCloseHooks() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, do := range c.closeHooks {
		go do()
	}
	c.closeHooks = nil
}

// connectionTagger adds the connection to the context of calls.
type connectionTagger struct{}

// TagConn implements stats.Handler: every call on the connection inherits the context.
func (connectionTagger) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, connectionKey{}, &connection{})
}

// HandleConn implements stats.Handler.
func (connectionTagger) HandleConn(ctx context.Context, event stats.ConnStats) {
	if _, ended := event.(*stats.ConnEnd); ended {
		connectionFromContext(ctx).runCloseHooks()
	}
}

// TagRPC implements stats.Handler.
func (connectionTagger) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (connectionTagger) HandleRPC(context.Context, stats.RPCStats) {}
