// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/internal/wire"
)

const (
	// maxErrorBytes limits a status to a size that fits into the trailers of a response.
	maxErrorBytes = 2 << 10
	// maxQuotedNameBytes is the length to which a quoted unknown name is truncated.
	maxQuotedNameBytes = 256
)

// callInfo has the attributes of a call of any kind.
type callInfo struct {
	id actionID
	// callID and key identify the log that the lines belong to.
	callID, key string
	parameters  map[string]string
	// requestErr is the reason if the call cannot be served.
	requestErr error
}

// statusError is the response to a request that cannot be passed to an action. Its code
// reaches the operator, in contrast to the code of an action's error.
type statusError struct {
	code codes.Code
	err  error
}

func newStatusError(code codes.Code, err error) error {
	return &statusError{code: code, err: err}
}

func (r *statusError) Error() string { return r.err.Error() }

func (r *statusError) Unwrap() error { return r.err }

// serveCall does the common part of calls of all kinds: it finds the action, provides its
// logger and parameters, and converts an error or a panic to a status. A is the interface
// through which the action is used; every action registered for the ID implements it.
func serveCall[A, R any](
	ctx context.Context, s *Server, in callInfo, do func(ctx context.Context, action A) (R, error),
) (R, error) {
	// Deferred first and therefore run last: nothing may be logged after it.
	defer s.writeCallLogEnd(in.callID)
	log := s.newCallLogger(in)
	parameters := in.parameters
	if parameters == nil {
		parameters = map[string]string{}
	}
	ctx = sdk.WithParameters(sdk.WithFeatures(sdk.WithLogger(ctx, log), s.features), parameters)
	resp, err := callAction(ctx, s, in, do)
	if err != nil {
		var none R
		return none, statusFromError(ctx, err, log)
	}
	return resp, nil
}

// callAction calls the action and turns a panic into an error.
func callAction[A, R any](
	ctx context.Context, s *Server, in callInfo, do func(ctx context.Context, action A) (R, error),
) (resp R, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = newPanicError(r)
		}
	}()
	if in.requestErr != nil {
		return resp, in.requestErr
	}
	e, ok := s.registry.entries[in.id]
	if !ok {
		// Not NotFound: object stores use it for missing objects.
		return resp, newStatusError(codes.Unimplemented, fmt.Errorf("the plugin does not provide %s %s %q",
			in.id.kind, in.id.version, wire.Cut(in.id.name, maxQuotedNameBytes)))
	}
	got, err := e.getOrCreateAction()
	if err != nil {
		return resp, err
	}
	action, ok := got.(A)
	if !ok {
		return resp, newStatusError(codes.Internal, fmt.Errorf("a %T was registered as %s %s", got, in.id.kind, in.id.version))
	}
	resp, err = do(ctx, action)
	if err != nil {
		// A nil pointer of an error type panics here, where the panic is recovered.
		_ = err.Error()
	}
	return resp, err
}

// newCallLogger returns the logger of a call. A host that does not identify the call gets
// plain lines.
func (s *Server) newCallLogger(in callInfo) *slog.Logger {
	if in.callID == "" && in.key == "" {
		return s.log.logger(s.level)
	}
	return s.log.callLogger(s.level, in.key, in.callID)
}

// writeCallLogEnd ends the log lines of a call. It ignores errors: if standard error is
// closed, the host has ended.
func (s *Server) writeCallLogEnd(callID string) {
	if callID != "" {
		_ = s.log.endCall(callID)
	}
}

// statusFromError returns the status for the error of a call. The code of a status that an
// action got from another service is dropped: for the operator, Unavailable means that the
// plugin itself is unavailable.
func statusFromError(ctx context.Context, err error, log *slog.Logger) error {
	text := wire.Cut(err.Error(), maxErrorBytes)
	var refused *statusError
	var panicked *panicError
	switch {
	case errors.As(err, &refused):
		return status.Error(refused.code, text)
	case errors.As(err, &panicked):
		log.Error("Recovering from a panic", "panic", fmt.Sprint(panicked.value), "stack", string(panicked.stack))
		return panicked.toStatusError(text)
	case ctx.Err() != nil:
		// The reason is the end of the ctx, regardless of the error of the action.
		log.Warn("Returning after the context of the action ended", "error", err.Error())
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.Error(codes.Unknown, text)
}
