// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/proto"
)

// defaultKey is the run that calls belong to unless the ctx says another.
const defaultKey = "key"

// attributes are what the operator says of a call to an action on items, or to an
// object store, beside the request.
type attributes struct {
	key, callID string
	parameters  map[string]string
}

type attributesKey struct{}

func attributesOf(ctx context.Context) attributes {
	if a, ok := ctx.Value(attributesKey{}).(attributes); ok {
		return a
	}
	return attributes{key: defaultKey}
}

// WithParameters returns a ctx for calls whose actions get the parameters from
// sdk.Parameters. Hooks have them in their requests.
func WithParameters(ctx context.Context, parameters map[string]string) context.Context {
	a := attributesOf(ctx)
	a.parameters = parameters
	return context.WithValue(ctx, attributesKey{}, a)
}

// WithKey returns a ctx for calls that belong to the run of a key: Plugin.LogLines
// returns what they log. Otherwise it is "key".
func WithKey(ctx context.Context, key string) context.Context {
	a := attributesOf(ctx)
	a.key = key
	return context.WithValue(ctx, attributesKey{}, a)
}

func withCallID(ctx context.Context, callID string) context.Context {
	a := attributesOf(ctx)
	a.callID = callID
	return context.WithValue(ctx, attributesKey{}, a)
}

// outgoing adds what the operator sends beside a message.
func (p *Plugin) outgoing(ctx context.Context) (context.Context, error) {
	a := attributesOf(ctx)
	pairs := []string{proto.MetadataCall, p.callIDOf(ctx), proto.MetadataKey, a.key}
	if len(a.parameters) > 0 {
		encoded, err := json.Marshal(a.parameters)
		if err != nil {
			return nil, fmt.Errorf("encoding the parameters: %w", err)
		}
		pairs = append(pairs, proto.MetadataParameters, string(encoded))
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...), nil
}

// callIDOf returns the ID for a call: a new one unless ctx says which.
func (p *Plugin) callIDOf(ctx context.Context) string {
	if id := attributesOf(ctx).callID; id != "" {
		return id
	}
	return p.newCallID()
}

// ofOperation makes an error of Progress or Cancel match item.ErrUnknownOperation, if that
// is what the action returned.
func ofOperation(err error) error {
	if status.Code(err) == codes.NotFound {
		return fmt.Errorf("%w: %w", item.ErrUnknownOperation, err)
	}
	return err
}

// followed is one call inside the plugin. Its channels are closed when the call has
// begun and when it has ended, whatever the caller was told.
type followed struct{ begun, ended chan struct{} }

// calls tells about calls inside the plugin.
type calls struct {
	// mu guards followed, the calls that are followed and have not begun, by ID.
	mu       sync.Mutex
	followed map[string]followed
}

// follow makes the call of an ID, which is not made yet, a followed one.
func (c *calls) follow(callID string) followed {
	f := followed{begun: make(chan struct{}), ended: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.followed[callID] = f
	return f
}

// begin says that a call has begun and returns what says that it has ended.
func (c *calls) begin(callID string) (end func()) {
	c.mu.Lock()
	f, ok := c.followed[callID]
	delete(c.followed, callID)
	c.mu.Unlock()
	if !ok {
		return func() {}
	}
	close(f.begun)
	return func() { close(f.ended) }
}

func (c *calls) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	callID := receivedCallID(ctx)
	// Those of hooks and of DeleteActions say it themselves.
	if in, ok := req.(interface{ GetCallId() string }); ok {
		callID = in.GetCallId()
	}
	defer c.begin(callID)()
	return handler(ctx, req)
}

func (c *calls) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	defer c.begin(receivedCallID(stream.Context()))()
	return handler(srv, stream)
}

func receivedCallID(ctx context.Context) string {
	if values := metadata.ValueFromIncomingContext(ctx, proto.MetadataCall); len(values) > 0 {
		return values[0]
	}
	return ""
}
