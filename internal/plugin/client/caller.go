// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// maxResolveAttempts is how often an action is resolved because its process was replaced
// during the call.
const maxResolveAttempts = 3

// ErrNoSuchAction matches the error of a Resolve whose plugin is loaded but does not
// provide the action.
var ErrNoSuchAction = errors.New("no such action")

// Connection makes calls to a plugin; *host.Process and *host.Endpoint do.
type Connection interface {
	// Begin is documented at host.Process.Begin.
	Begin(ctx context.Context, call host.Call) (host.OpenCall, error)
}

// ResolveFunc returns the process that currently provides an action and how to call it. Its
// error is shown to users.
type ResolveFunc[A any] func() (Connection, A, error)

// Caller makes calls to one action. It is safe for concurrent use.
type Caller[A any] struct {
	resolve  ResolveFunc[A]
	redactor *redact.Redactor
}

// NewCaller returns a Caller for an action.
func NewCaller[A any](resolve ResolveFunc[A], redactor *redact.Redactor) *Caller[A] {
	return &Caller[A]{resolve: resolve, redactor: redactor}
}

// CallError is the only type of error that a Caller returns.
type CallError struct {
	// Kind is the kind of failure.
	Kind executor.ErrorKind
	// Text is one line for users, redacted.
	Text string
	// Err is the cause. Its text may contain anything and must not be shown.
	Err error
}

// Error returns the text.
func (e *CallError) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *CallError) Unwrap() error { return e.Err }

// Call is one call of an action. Exactly one gRPC call is made on its connection, with the ctx of
// Begin.
type Call[A any] struct {
	host.OpenCall
	// Action is the client for the version that the plugin offers.
	Action A

	ctx      context.Context //nolint:containedctx // The deadline of the call decides how it ended.
	redactor *redact.Redactor
}

// Begin opens a call to the process that provides the action. If the process was replaced
// meanwhile, it resolves the action again. The error is a *CallError.
func (c *Caller[A]) Begin(ctx context.Context, call host.Call) (*Call[A], error) {
	var err error
	for range maxResolveAttempts {
		var conn Connection
		var action A
		if conn, action, err = c.resolve(); err != nil {
			err = &resolveError{err: err}
			break
		}
		var open host.OpenCall
		if open, err = conn.Begin(ctx, call); err == nil {
			return &Call[A]{OpenCall: open, Action: action, ctx: ctx, redactor: c.redactor}, nil
		}
		if !errors.Is(err, host.ErrUnloaded) {
			break
		}
	}
	return nil, newCallError(ctx, err, c.redactor)
}

// End ends a call. It takes the error of the gRPC call, and replaces it by a *CallError. It is meant
// to be deferred.
func (c *Call[A]) End(err *error) {
	if *err = c.OpenCall.End(c.ctx, *err); *err != nil {
		*err = newCallError(c.ctx, *err, c.redactor)
	}
}

func newCallError(ctx context.Context, err error, redactor *redact.Redactor) *CallError {
	kind, text := classifyError(err)
	if kind == executor.Unreachable && ctx.Err() != nil {
		// The deadline expired while the process was starting.
		err = ctx.Err()
		kind, text = classifyError(err)
	}
	return &CallError{Kind: kind, Text: executor.OneLine(redactor.String(text)), Err: err}
}

// resolveError marks an error of Resolve.
type resolveError struct{ err error }

func (r *resolveError) Error() string { return r.err.Error() }

func (r *resolveError) Unwrap() error { return r.err }

func classifyError(err error) (executor.ErrorKind, string) {
	var start *host.StartError
	var lost *host.LostError
	var contract *ContractError
	switch {
	case errors.Is(err, ErrNoSuchAction):
		return executor.Invalid, err.Error()
	case errors.As(err, &start) && start.Reason == host.ReasonInvalidSpec:
		return executor.Invalid, err.Error()
	case errors.As(err, &start), errors.As(err, &lost), errors.As(err, new(*resolveError)):
		return executor.Unreachable, err.Error()
	case errors.As(err, &contract):
		return executor.Failed, contract.Message
	case errors.As(err, new(*CopyError)), errors.Is(err, ErrUnknownOperation):
		return executor.Failed, err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return executor.Timeout, "did not answer before its deadline: raise its timeout or check what it waits for"
	case errors.Is(err, context.Canceled):
		return executor.Interrupted, "was interrupted before it answered"
	}
	return classifyStatus(status.Convert(err))
}

// classifyStatus classifies the status of a call. The statuses of the SDK are documented in
// sdk/serve; other plugins may send any status.
func classifyStatus(s *status.Status) (executor.ErrorKind, string) {
	text := s.Message()
	if s.Code() == codes.Aborted {
		// Velero's framework reports a panic with an error in this form. The text after it
		// differs every time.
		text, _, _ = strings.Cut(text, ", stack trace: goroutine ")
	}
	if text == "" {
		text = "failed without a message"
	}
	switch s.Code() {
	case codes.Unimplemented, codes.NotFound, codes.InvalidArgument:
		return executor.Invalid, text
	case codes.ResourceExhausted:
		return executor.Failed, fmt.Sprintf("a message is larger than the plugin or Grapnel accepts: %s", text)
	case codes.Internal:
		return executor.Failed, "answered something that is not part of the contract: " + text
	default:
		return executor.Failed, text
	}
}
