// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/internal/plugin/process"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/proto"
)

// maxRequest leaves room for the parts of a message that are not counted.
const maxRequest = proto.MaxRequestBytes - 1<<20

// maxResolve is how often an action is looked up again because its process was
// replaced at that very moment.
const maxResolve = 3

// ErrNoSuchAction matches the error of a Resolve whose plugin is there and does not
// provide the action.
var ErrNoSuchAction = errors.New("no such action")

// Connection makes calls to a plugin process; *process.Process does.
type Connection interface {
	// Do is documented at process.Process.Do.
	Do(ctx context.Context, call process.Call, fn func(context.Context, grpc.ClientConnInterface, string) error) error
}

// Resolve returns the process that provides the action now and how to call it. Its
// error is shown to people.
type Resolve func() (Connection, adapter.Hook, error)

// Executor runs one action.
type Executor struct {
	id       adapter.ID
	resolve  Resolve
	redactor *redact.Redactor
}

var _ executor.Executor = (*Executor)(nil)

// New returns an Executor for one action.
func New(id adapter.ID, resolve Resolve, redactor *redact.Redactor) *Executor {
	return &Executor{id: id, resolve: resolve, redactor: redactor}
}

// Execute makes one attempt; see executor.Executor.
func (e *Executor) Execute(ctx context.Context, call executor.Call) (executor.Answer, error) {
	if err := e.check(call); err != nil {
		return executor.Answer{}, executor.NewError(executor.Invalid, call, err.Error(), err)
	}
	var answer executor.Answer
	var err error
	for range maxResolve {
		answer, err = e.attempt(ctx, call)
		if !errors.Is(err, process.ErrClosed) {
			break
		}
	}
	if err != nil {
		return executor.Answer{}, e.explain(ctx, call, err)
	}
	answer.Message = executor.OneLine(e.redactor.String(answer.Message))
	return answer, nil
}

func (e *Executor) attempt(ctx context.Context, call executor.Call) (answer executor.Answer, err error) {
	conn, hook, err := e.resolve()
	if err != nil {
		return executor.Answer{}, &resolveError{err: err}
	}
	err = conn.Do(ctx, process.Call{Key: call.Key, Log: logr.FromContextOrDiscard(ctx)},
		func(ctx context.Context, conn grpc.ClientConnInterface, callID string) error {
			var err error
			answer, err = hook(ctx, conn, callID, call)
			return err
		})
	return answer, err
}

// check refuses a call that no plugin would accept.
func (e *Executor) check(call executor.Call) error {
	switch {
	case call.Kind() != e.id.Kind || call.Action != e.id.Name:
		return fmt.Errorf("the call is for %s(%s)", e.id.Kind, e.id.Name)
	case call.Key == "":
		return errors.New("the call has no idempotency key")
	case call.Attempt < 1:
		return fmt.Errorf("the call has attempt number %d, attempts are counted from 1", call.Attempt)
	case len(call.Subject) > hook.MaxSubjectBytes:
		return fmt.Errorf("the object it runs for has %d bytes, at most %d can be handed to a plugin: make it smaller",
			len(call.Subject), hook.MaxSubjectBytes)
	}
	if err := hook.ValidateParameters(call.Parameters); err != nil {
		return err
	}
	earlier, err := sizeOf(call.Outputs, "the outputs of")
	if err != nil {
		return err
	}
	kept, err := sizeOf(call.BackupOutputs, "the backup's outputs of")
	if err != nil {
		return err
	}
	if size := len(call.Subject) + earlier + kept; size > maxRequest {
		return fmt.Errorf("the object and the outputs of earlier actions have %d bytes together, at most %d can be handed to a plugin",
			size, maxRequest)
	}
	return nil
}

// sizeOf returns the size of the outputs of several actions, if all of them are
// within the limits. An error begins with what; it is the same every time.
func sizeOf(outputs map[string]map[string]string, what string) (int, error) {
	size := 0
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		values := outputs[name]
		if err := hook.ValidateOutputs(values); err != nil {
			return 0, fmt.Errorf("%s %q: %w", what, name, err)
		}
		size += len(name)
		for key, value := range values {
			size += len(key) + len(value)
		}
	}
	return size, nil
}

// resolveError marks an error of Resolve.
type resolveError struct{ err error }

func (r *resolveError) Error() string { return r.err.Error() }

func (r *resolveError) Unwrap() error { return r.err }

// explain turns any error of a call into an *executor.Error.
func (e *Executor) explain(ctx context.Context, call executor.Call, err error) error {
	kind, text := classify(err)
	if kind == executor.Unreachable && ctx.Err() != nil {
		// The process was on its way when the time was over.
		kind, text = classify(ctx.Err())
		err = ctx.Err()
	}
	return executor.NewError(kind, call, e.redactor.String(text), err)
}

func classify(err error) (executor.Kind, string) {
	var start *process.StartError
	var lost *process.LostError
	var contract *adapter.ContractError
	switch {
	case errors.Is(err, ErrNoSuchAction):
		return executor.Invalid, err.Error()
	case errors.As(err, &start) && start.Reason == process.ReasonInvalidSpec:
		return executor.Invalid, err.Error()
	case errors.As(err, &start), errors.As(err, &lost), errors.As(err, new(*resolveError)):
		return executor.Unreachable, err.Error()
	case errors.As(err, &contract):
		return executor.Failed, contract.Message
	case errors.Is(err, context.DeadlineExceeded):
		return executor.Timeout, "did not answer before its deadline: raise its timeout or check what it waits for"
	case errors.Is(err, context.Canceled):
		return executor.Interrupted, "was interrupted before it answered"
	}
	return classifyStatus(status.Convert(err))
}

// classifyStatus reads the status of a call that was answered. What the SDK sends
// is documented in sdk/serve; other plugins may send anything.
func classifyStatus(s *status.Status) (executor.Kind, string) {
	text := s.Message()
	if text == "" {
		text = "failed without saying why"
	}
	switch s.Code() {
	case codes.Unimplemented, codes.NotFound, codes.InvalidArgument:
		return executor.Invalid, text
	case codes.ResourceExhausted:
		return executor.Failed, fmt.Sprintf("answered with more than %d bytes, which is not part of the contract", proto.MaxResponseBytes)
	case codes.Internal:
		return executor.Failed, "answered something that is not part of the contract: " + text
	default:
		return executor.Failed, text
	}
}
