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

// defaultKey is the key of calls whose ctx has none.
const defaultKey = "key"

// callAttributes are the attributes that the operator sends beside the request of a call to
// an action on items or to an object store.
type callAttributes struct {
	key, callID string
	parameters  map[string]string
}

type callAttributesKey struct{}

func attributesFromContext(ctx context.Context) callAttributes {
	if a, ok := ctx.Value(callAttributesKey{}).(callAttributes); ok {
		return a
	}
	return callAttributes{key: defaultKey}
}

// WithParameters returns a ctx for calls whose actions get the parameters from
// sdk.Parameters. Hooks have them in their requests.
func WithParameters(ctx context.Context, parameters map[string]string) context.Context {
	a := attributesFromContext(ctx)
	a.parameters = parameters
	return context.WithValue(ctx, callAttributesKey{}, a)
}

// WithKey returns a ctx for calls that belong to the run with a key: Plugin.LogLines
// returns their log lines. The default is "key".
func WithKey(ctx context.Context, key string) context.Context {
	a := attributesFromContext(ctx)
	a.key = key
	return context.WithValue(ctx, callAttributesKey{}, a)
}

func withCallID(ctx context.Context, callID string) context.Context {
	a := attributesFromContext(ctx)
	a.callID = callID
	return context.WithValue(ctx, callAttributesKey{}, a)
}

// withCallMetadata adds the metadata that the operator sends beside a message.
func (p *Plugin) withCallMetadata(ctx context.Context) (context.Context, error) {
	a := attributesFromContext(ctx)
	pairs := []string{proto.MetadataCall, p.callIDFor(ctx), proto.MetadataKey, a.key}
	if len(a.parameters) > 0 {
		encoded, err := json.Marshal(a.parameters)
		if err != nil {
			return nil, fmt.Errorf("encoding the parameters: %w", err)
		}
		pairs = append(pairs, proto.MetadataParameters, string(encoded))
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...), nil
}

// callIDFor returns the ID for a call: a new one unless ctx has one.
func (p *Plugin) callIDFor(ctx context.Context) string {
	if id := attributesFromContext(ctx).callID; id != "" {
		return id
	}
	return p.nextCallID()
}

// toOperationError makes an error of Progress or Cancel match item.ErrUnknownOperation if the
// action returned that error.
func toOperationError(err error) error {
	if status.Code(err) == codes.NotFound {
		return fmt.Errorf("%w: %w", item.ErrUnknownOperation, err)
	}
	return err
}

// trackedCall is one call inside the plugin. Its channels are closed when the call has
// begun and when it has ended, regardless of the response to the caller.
type trackedCall struct{ begun, ended chan struct{} }

// callTracker tracks calls inside the plugin.
type callTracker struct {
	// mu guards followed: the tracked calls that have not begun, by ID.
	mu      sync.Mutex
	tracked map[string]trackedCall
}

// trackUpcomingCall starts tracking the call with an ID before it is made.
func (c *callTracker) trackUpcomingCall(callID string) trackedCall {
	f := trackedCall{begun: make(chan struct{}), ended: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tracked[callID] = f
	return f
}

// markCallBegun marks a call as begun and returns a function that marks it as ended.
func (c *callTracker) markCallBegun(callID string) (end func()) {
	c.mu.Lock()
	f, ok := c.tracked[callID]
	delete(c.tracked, callID)
	c.mu.Unlock()
	if !ok {
		return func() {}
	}
	close(f.begun)
	return func() { close(f.ended) }
}

func (c *callTracker) unaryInterceptor(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	callID := incomingCallID(ctx)
	// Requests of hooks and DeleteActions contain the key themselves.
	if in, ok := req.(interface{ GetCallId() string }); ok {
		callID = in.GetCallId()
	}
	defer c.markCallBegun(callID)()
	return handler(ctx, req)
}

func (c *callTracker) streamInterceptor(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	defer c.markCallBegun(incomingCallID(stream.Context()))()
	return handler(srv, stream)
}

func incomingCallID(ctx context.Context) string {
	if values := metadata.ValueFromIncomingContext(ctx, proto.MetadataCall); len(values) > 0 {
		return values[0]
	}
	return ""
}
