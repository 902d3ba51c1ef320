// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/executor"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/proto"
)

// maxRequestBytes leaves room for the parts of a message that are not counted.
const maxRequestBytes = proto.MaxRequestBytes - 1<<20

// processExecutor is a hook action in a plugin process next to the operator. For every call it
// requests the process that currently provides the action (a process may be replaced between
// two calls), makes the call with the deadline of the attempt, and translates the result into
// the terms of package executor:
//
//	cannot be started, connection lost    Unreachable
//	no answer before the deadline         Timeout
//	error, panic, answer that breaks the  Failed
//	contract
//	request too large, no such action     Invalid
//	ctx canceled                          Interrupted
//
// Process management (plugin/host) and message translation (plugin/client) do NOT belong
// here.
type processExecutor struct {
	id       pluginclient.ActionID
	caller   *pluginclient.Caller[pluginclient.Hook]
	redactor *redact.Redactor
}

var _ executor.Executor = (*processExecutor)(nil)

// newProcessExecutor returns an Executor for one action.
func newProcessExecutor(id pluginclient.ActionID, resolve pluginclient.ResolveFunc[pluginclient.Hook], redactor *redact.Redactor) *processExecutor {
	return &processExecutor{id: id, caller: pluginclient.NewCaller(resolve, redactor), redactor: redactor}
}

// Execute makes one attempt; see executor.Executor.
func (e *processExecutor) Execute(ctx context.Context, attempt executor.Call) (executor.Answer, error) {
	if err := e.validateCall(attempt); err != nil {
		return executor.Answer{}, executor.NewError(executor.Invalid, attempt, err.Error(), err)
	}
	answer, err := e.callHook(ctx, attempt)
	if failed := new(pluginclient.CallError); errors.As(err, &failed) {
		return executor.Answer{}, executor.NewError(failed.Kind, attempt, failed.Text, failed.Err)
	}
	answer.Message = executor.OneLine(e.redactor.String(answer.Message))
	return answer, nil
}

func (e *processExecutor) callHook(ctx context.Context, attempt executor.Call) (answer executor.Answer, err error) {
	call, err := e.caller.Begin(ctx, host.Call{Key: attempt.Key, Log: logr.FromContextOrDiscard(ctx)})
	if err != nil {
		return executor.Answer{}, err
	}
	defer call.End(&err)
	return call.Action(ctx, call.Conn(), call.ID(), attempt)
}

// validateCall rejects a call that no plugin would accept.
func (e *processExecutor) validateCall(call executor.Call) error {
	switch {
	case call.ActionKind() != e.id.Kind || call.Action != e.id.Name:
		return fmt.Errorf("the call is for %s(%s)", e.id.Kind, e.id.Name)
	case call.Key == "":
		return errors.New("the call has no idempotency key")
	case call.Attempt < 1:
		return fmt.Errorf("the call has attempt number %d, attempts are counted from 1", call.Attempt)
	case len(call.Subject) > hook.MaxSubjectBytes:
		return fmt.Errorf("the object it runs for has %d bytes, at most %d can be passed to a plugin: make it smaller",
			len(call.Subject), hook.MaxSubjectBytes)
	}
	if err := hook.ValidateParameters(call.Parameters); err != nil {
		return err
	}
	earlier, err := validatedOutputsSize(call.Outputs, "the outputs of")
	if err != nil {
		return err
	}
	kept, err := validatedOutputsSize(call.BackupOutputs, "the backup's outputs of")
	if err != nil {
		return err
	}
	if size := len(call.Subject) + earlier + kept; size > maxRequestBytes {
		return fmt.Errorf("the object and the outputs of earlier actions have %d bytes together, at most %d can be passed to a plugin",
			size, maxRequestBytes)
	}
	return nil
}

// validatedOutputsSize returns the size of the outputs of several actions, if all of them are
// within the limits. An error begins with what, and is deterministic.
func validatedOutputsSize(outputs map[string]map[string]string, what string) (int, error) {
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
