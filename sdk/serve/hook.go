// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/internal/call"
	"github.com/grapnel-dev/grapnel/sdk/internal/wire"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	hookpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/hook/v1"
)

// maxErrorBytes keeps a status small enough for the trailers of a response.
const maxErrorBytes = 2 << 10

// panicError is a recovered panic with its stack, which is for the log only.
type panicError struct {
	value any
	stack []byte
}

func newPanic(value any) *panicError {
	return &panicError{value: value, stack: debug.Stack()}
}

func (p *panicError) Error() string {
	return proto.PanicPrefix + fmt.Sprint(p.value)
}

// execute serves one call of a run-once action of any kind. The name in called is
// that of the request.
func (s *Server) execute(ctx context.Context, called id, in *hookpb.ExecuteRequest) (*hookpb.ExecuteResponse, error) {
	// Deferred first, so that it runs last: nothing is logged after it.
	defer s.endOfLog(in.GetCallId())
	log := s.log.CallLogger(s.level, in.GetIdempotencyKey(), in.GetCallId())
	called.name = in.GetPlugin()
	e, ok := s.registry.entries[called]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "the plugin does not provide %s %s %q",
			called.kind, called.version, wire.Cut(called.name, 256))
	}
	if in.GetIdempotencyKey() == "" {
		return nil, status.Error(codes.InvalidArgument, "the call has no idempotency key")
	}
	req, err := wire.RequestFrom(called.kind, in)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, wire.Cut(err.Error(), maxErrorBytes))
	}
	unlock, err := s.running.lock(ctx, fmt.Sprintf("%s %s %s", called.kind, called.name, in.GetIdempotencyKey()))
	if err != nil {
		return nil, status.FromContextError(err).Err()
	}
	defer unlock()
	ctx = call.WithFeatures(call.WithLogger(ctx, log), s.features)
	resp, err := run(ctx, e, req)
	if err != nil && ctx.Err() != nil {
		// Whatever the action says, the reason is that its time was over.
		log.Warn("Ending an action whose time was over", "error", err.Error())
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if err != nil {
		return nil, statusOf(err, log)
	}
	out, err := wire.ResponseTo(resp)
	if err != nil {
		return nil, status.Error(codes.Unknown, wire.Cut(err.Error(), maxErrorBytes))
	}
	return out, nil
}

// endOfLog ends the log lines of a call. If standard error is gone, so is the
// host, and nobody is left who could be told.
func (s *Server) endOfLog(callID string) {
	if callID != "" {
		_ = s.log.End(callID)
	}
}

// run calls the action and turns a panic into an error.
func run(ctx context.Context, e *entry, req *hook.Request) (resp *hook.Response, err error) {
	defer func() {
		if r := recover(); r != nil {
			resp, err = nil, newPanic(r)
		}
	}()
	execute, err := e.get()
	if err != nil {
		return nil, err
	}
	return execute(ctx, req)
}

// statusOf returns the status for an action's error. The code of a status that
// the action got from elsewhere is not kept: to the operator, "unavailable" means
// that the plugin itself is.
func statusOf(err error, log *slog.Logger) error {
	code := codes.Unknown
	if p := new(panicError); errors.As(err, &p) {
		log.Error("Recovering from a panic", "panic", fmt.Sprint(p.value), "stack", string(p.stack))
		code = codes.Aborted
	}
	return status.Error(code, wire.Cut(err.Error(), maxErrorBytes))
}
