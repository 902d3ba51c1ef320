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

	"github.com/grapnel-dev/grapnel/sdk/internal/call"
	"github.com/grapnel-dev/grapnel/sdk/internal/wire"
)

const (
	// maxErrorBytes keeps a status small enough for the trailers of a response.
	maxErrorBytes = 2 << 10
	// maxQuotedNameBytes is how much of an unknown name is repeated.
	maxQuotedNameBytes = 256
)

// callInfo is what every call has, whatever its kind.
type callInfo struct {
	id actionID
	// callID and key say which log the lines belong to.
	callID, key string
	parameters  map[string]string
	// requestErr is why the call cannot be served, if it cannot.
	requestErr error
}

// statusError is the answer to a request that no action can help with. Its code reaches
// the operator, in contrast to that of an action's error.
type statusError struct {
	code codes.Code
	err  error
}

func newStatusError(code codes.Code, err error) error {
	return &statusError{code: code, err: err}
}

func (r *statusError) Error() string { return r.err.Error() }

func (r *statusError) Unwrap() error { return r.err }

// serveCall does what is the same for the calls of all kinds: it finds the action,
// gives it its logger and its parameters, and makes a status of an error or a panic.
// A is what the action is used as; every action registered for the id is one.
func serveCall[A, R any](
	ctx context.Context, s *Server, in callInfo, do func(ctx context.Context, action A) (R, error),
) (R, error) {
	// Deferred first, so that it runs last: nothing is logged after it.
	defer s.writeCallLogEnd(in.callID)
	log := s.newCallLogger(in)
	parameters := in.parameters
	if parameters == nil {
		parameters = map[string]string{}
	}
	ctx = call.WithParameters(call.WithFeatures(call.WithLogger(ctx, log), s.features), parameters)
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
		// Not NotFound: that is what an object store says of an object.
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
		// A nil pointer of a type that is an error panics here, and not where nobody
		// recovers.
		_ = err.Error()
	}
	return resp, err
}

// newCallLogger returns the logger of a call. A host that does not say which call it is
// gets plain lines.
func (s *Server) newCallLogger(in callInfo) *slog.Logger {
	if in.callID == "" && in.key == "" {
		return s.log.Logger(s.level)
	}
	return s.log.CallLogger(s.level, in.key, in.callID)
}

// writeCallLogEnd ends the log lines of a call. If standard error is gone, so is the
// host, and nobody is left who could be told.
func (s *Server) writeCallLogEnd(callID string) {
	if callID != "" {
		_ = s.log.End(callID)
	}
}

// statusFromError returns the status for the error of a call. The code of a status that an
// action got from elsewhere is not kept: to the operator, "unavailable" means that the
// plugin itself is.
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
		// Whatever the action says, the reason is that its time was over.
		log.Warn("Ending an action whose time was over", "error", err.Error())
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.Error(codes.Unknown, text)
}
