// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"

	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/internal/wire"
	hookpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/hook/v1"
)

// runOnce is what the run-once kinds have in common, whatever their version is.
type runOnce interface {
	Execute(ctx context.Context, req *hook.Request) (*hook.Response, error)
}

// execute serves one call of a run-once action of any kind. The name in called is
// that of the request.
func (s *Server) execute(ctx context.Context, called id, in *hookpb.ExecuteRequest) (*hookpb.ExecuteResponse, error) {
	called.name = in.GetPlugin()
	received := incoming{
		id: called, callID: in.GetCallId(), key: in.GetIdempotencyKey(), parameters: in.GetParameters(),
	}
	return serveCall(ctx, s, received, func(ctx context.Context, action runOnce) (*hookpb.ExecuteResponse, error) {
		req, err := wire.RequestFrom(called.kind, in)
		unlock, err := s.alone(ctx, received, err)
		if err != nil {
			return nil, err
		}
		defer unlock()
		resp, err := action.Execute(ctx, req)
		if err != nil {
			return nil, err
		}
		return wire.ResponseTo(resp)
	})
}

// alone waits until no other call of the action with this idempotency key runs, and returns
// what lets the next one begin. unreadable is why there is no request, if it could not be
// read.
func (s *Server) alone(ctx context.Context, in incoming, unreadable error) (unlock func(), err error) {
	if in.key == "" {
		return nil, refuse(codes.InvalidArgument, errors.New("the call has no idempotency key"))
	}
	if unreadable != nil {
		return nil, refuse(codes.InvalidArgument, unreadable)
	}
	return s.running.lock(ctx, fmt.Sprintf("%s %s %s", in.id.kind, in.id.name, in.key))
}
