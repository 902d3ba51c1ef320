// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/operation"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// OperationResolver finds actions of plugins; *catalog.Catalog does.
type OperationResolver interface {
	// BackupItemAction and RestoreItemAction return the client of an action, even if the
	// action cannot be reached now. The kind must have operations.
	BackupItemAction(pluginObject, kind, action string) ResolveFunc[BackupItemAction]
	RestoreItemAction(pluginObject, kind, action string) ResolveFunc[RestoreItemAction]
}

// OperationTarget is an operation and the action to call for it.
type OperationTarget struct {
	// Plugin is the name of the Plugin. Kind and Action identify the action.
	Plugin, Kind, Action string
	// ID is the ID that the action gave to the operation.
	ID string
	// Key is the UID of the run that the operation belongs to, and Parent the Backup or
	// Restore in the form of velero.io/v1.
	Key    string
	Parent []byte
	// Parameters are what the user configured for the action.
	Parameters map[string]string
	// Log receives the lines that the plugin logs during the call. RunLog receives lines
	// that may belong to other calls of the same run.
	Log, RunLog logr.Logger
}

// OperationClient calls actions for operations. It is safe for concurrent use.
type OperationClient struct {
	// Actions finds them.
	Actions OperationResolver
	// Redactor removes secrets from their texts.
	Redactor *redact.Redactor
	// Timeout limits each call.
	Timeout time.Duration
}

// GetProgress returns the progress of an operation.
func (a *OperationClient) GetProgress(ctx context.Context, target OperationTarget) (item.Progress, *operation.Failure) {
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	progress, err := a.callProgress(ctx, target)
	if err != nil {
		return item.Progress{}, a.toOperationFailure(err)
	}
	for _, text := range []*string{&progress.Err, &progress.OperationUnits, &progress.Description, &progress.Warning} {
		*text = a.Redactor.String(*text)
	}
	return progress, nil
}

func (a *OperationClient) callProgress(ctx context.Context, target OperationTarget) (progress item.Progress, err error) {
	call, err := a.begin(ctx, target)
	if err != nil {
		return item.Progress{}, err
	}
	defer call.End(&err)
	return call.Action.Progress(ctx, target.toItemCall(call), OperationRef{OperationID: target.ID, Parent: target.Parent})
}

// CancelOperation requests the cancellation of an operation. No failure means that the action
// accepted the request, not that the operation has ended.
func (a *OperationClient) CancelOperation(ctx context.Context, target OperationTarget) *operation.Failure {
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	if err := a.callCancel(ctx, target); err != nil {
		return a.toOperationFailure(err)
	}
	return nil
}

func (a *OperationClient) callCancel(ctx context.Context, target OperationTarget) (err error) {
	call, err := a.begin(ctx, target)
	if err != nil {
		return err
	}
	defer call.End(&err)
	return call.Action.Cancel(ctx, target.toItemCall(call), OperationRef{OperationID: target.ID, Parent: target.Parent})
}

// begin opens a call to the action of an operation.
func (a *OperationClient) begin(ctx context.Context, target OperationTarget) (*Call[Operations], error) {
	resolve := resolveOperations(a.Actions.BackupItemAction(target.Plugin, target.Kind, target.Action))
	if kind := sdk.Kind(target.Kind); kind == sdk.KindRestoreItemAction || kind == sdk.KindAsyncRestoreItemAction {
		resolve = resolveOperations(a.Actions.RestoreItemAction(target.Plugin, target.Kind, target.Action))
	}
	return NewCaller(resolve, a.Redactor).Begin(ctx, host.Call{Key: target.Key, Log: target.Log, RunLog: target.RunLog})
}

// resolveOperations returns the same action with the methods that both kinds have.
func resolveOperations[A Operations](resolve ResolveFunc[A]) ResolveFunc[Operations] {
	return func() (Connection, Operations, error) { return resolve() }
}

func (t *OperationTarget) toItemCall(call *Call[Operations]) ItemCall {
	return ItemCall{Conn: call.Conn(), Action: t.Action, CallID: call.ID(), Key: t.Key, Parameters: t.Parameters}
}

// toOperationFailure distinguishes errors that the plugin returned from a missing response.
func (a *OperationClient) toOperationFailure(err error) *operation.Failure {
	var failed *CallError
	if !errors.As(err, &failed) {
		return &operation.Failure{Text: "internal error; see the operator's log"}
	}
	failure := &operation.Failure{Text: failed.Text}
	switch failed.Kind {
	case executor.Failed:
		failure.Answered = true
	case executor.Invalid:
		// Only errors that the plugin itself returned are about the operation.
		failure.Answered = !errors.Is(err, ErrNoSuchAction) && !errors.As(err, new(*host.StartError))
	case executor.Timeout:
		failure.Text = fmt.Sprintf("it did not answer within %s", a.Timeout)
	default:
	}
	failure.Unknown = failure.Answered && errors.Is(err, ErrUnknownOperation)
	return failure
}
