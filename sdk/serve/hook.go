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

// hookAction is the common interface of the run-once kinds in all versions.
type hookAction interface {
	Execute(ctx context.Context, req *hook.Request) (*hook.Response, error)
}

// executeHookAction serves one call of a run-once action of any kind. The name in called is
// the name in the request.
func (s *Server) executeHookAction(ctx context.Context, called actionID, in *hookpb.ExecuteRequest) (*hookpb.ExecuteResponse, error) {
	called.name = in.GetPlugin()
	received := callInfo{
		id: called, callID: in.GetCallId(), key: in.GetIdempotencyKey(), parameters: in.GetParameters(),
	}
	return serveCall(ctx, s, received, func(ctx context.Context, action hookAction) (*hookpb.ExecuteResponse, error) {
		req, err := wire.RequestFrom(called.kind, in)
		unlock, err := s.lockIdempotencyKey(ctx, received, err)
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

// lockIdempotencyKey waits until no other call of the action with this idempotency key runs, and
// returns the function that unlocks the key. unreadable is the error if the request could not be
// read.
func (s *Server) lockIdempotencyKey(ctx context.Context, in callInfo, unreadable error) (unlock func(), err error) {
	if in.key == "" {
		return nil, newStatusError(codes.InvalidArgument, errors.New("the call has no idempotency key"))
	}
	if unreadable != nil {
		return nil, newStatusError(codes.InvalidArgument, unreadable)
	}
	return s.runningKeys.waitAndLockKey(ctx, fmt.Sprintf("%s %s %s", in.id.kind, in.id.name, in.key))
}
