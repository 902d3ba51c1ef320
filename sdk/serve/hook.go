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
		if in.GetIdempotencyKey() == "" {
			return nil, refuse(codes.InvalidArgument, errors.New("the call has no idempotency key"))
		}
		req, err := wire.RequestFrom(called.kind, in)
		if err != nil {
			return nil, refuse(codes.InvalidArgument, err)
		}
		unlock, err := s.running.lock(ctx, fmt.Sprintf("%s %s %s", called.kind, called.name, in.GetIdempotencyKey()))
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
