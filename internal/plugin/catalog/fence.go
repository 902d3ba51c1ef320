// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"fmt"

	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
)

// wrapWithFence returns a connection whose calls wait for Options.Fence.
func (c *Catalog) wrapWithFence(conn pluginclient.Connection) pluginclient.Connection {
	if c.fence == nil {
		return conn
	}
	return &fencedConnection{Connection: conn, fence: c.fence}
}

type fencedConnection struct {
	pluginclient.Connection
	fence func(context.Context) error
}

// Begin opens a call once the fence allows it. A call that is not made returns Interrupted: it
// does not indicate a failure of the plugin.
func (f *fencedConnection) Begin(ctx context.Context, call host.Call) (host.OpenCall, error) {
	if err := f.fence(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("not called: %w", err)
		}
		return nil, fmt.Errorf("not called: %w: %w", err, context.Canceled)
	}
	return f.Connection.Begin(ctx, call)
}
