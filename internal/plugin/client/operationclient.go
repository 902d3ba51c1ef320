// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/operation"
	"github.com/grapnel-dev/grapnel/internal/plugin/process"
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
	var progress item.Progress
	failure := a.callAction(ctx, target, func(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, action Operations, op OperationRef) error {
		var err error
		progress, err = action.Progress(ctx, conn, call, op)
		return err
	})
	if failure != nil {
		return item.Progress{}, failure
	}
	for _, text := range []*string{&progress.Err, &progress.OperationUnits, &progress.Description} {
		*text = a.Redactor.String(*text)
	}
	return progress, nil
}

// CancelOperation requests the cancellation of an operation. No failure means that the action
// accepted the request, not that the operation has ended.
func (a *OperationClient) CancelOperation(ctx context.Context, target OperationTarget) *operation.Failure {
	return a.callAction(ctx, target, func(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, action Operations, op OperationRef) error {
		return action.Cancel(ctx, conn, call, op)
	})
}

type operationCallFunc func(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, action Operations, op OperationRef) error

func (a *OperationClient) callAction(ctx context.Context, target OperationTarget, fn operationCallFunc) *operation.Failure {
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	var err error
	switch sdk.Kind(target.Kind) {
	case sdk.KindRestoreItemAction, sdk.KindAsyncRestoreItemAction:
		err = callResolved(ctx, a, target, a.Actions.RestoreItemAction(target.Plugin, target.Kind, target.Action), fn)
	default:
		err = callResolved(ctx, a, target, a.Actions.BackupItemAction(target.Plugin, target.Kind, target.Action), fn)
	}
	if err != nil {
		return a.toOperationFailure(err)
	}
	return nil
}

func callResolved[A Operations](ctx context.Context, a *OperationClient, target OperationTarget, resolve ResolveFunc[A], fn operationCallFunc) error {
	return NewCaller(resolve, a.Redactor).Do(ctx, process.Call{Key: target.Key, Log: target.Log, RunLog: target.RunLog},
		func(ctx context.Context, conn grpc.ClientConnInterface, callID string, action A) error {
			call := ItemCall{Action: target.Action, CallID: callID, Key: target.Key, Parameters: target.Parameters}
			return fn(ctx, conn, call, action, OperationRef{OperationID: target.ID, Parent: target.Parent})
		})
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
		failure.Answered = !errors.Is(err, ErrNoSuchAction) && !errors.As(err, new(*process.StartError))
	case executor.Timeout:
		failure.Text = fmt.Sprintf("it did not answer within %s", a.Timeout)
	default:
	}
	failure.Unknown = failure.Answered && errors.Is(err, ErrUnknownOperation)
	return failure
}
