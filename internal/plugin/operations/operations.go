// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/kube/operation"
	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/internal/plugin/caller"
	"github.com/grapnel-dev/grapnel/internal/plugin/process"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// Actions finds actions of plugins; *catalog.Catalog does.
type Actions interface {
	// BackupItemAction and RestoreItemAction return how to reach an action, whether it
	// can be reached now or not. The kind is one that has operations.
	BackupItemAction(pluginObject, kind, action string) caller.Resolve[adapter.BackupItemAction]
	RestoreItemAction(pluginObject, kind, action string) caller.Resolve[adapter.RestoreItemAction]
}

// Target is an operation, and how its action is asked about it.
type Target struct {
	// Plugin is the name of the Plugin, Kind and Action those of the action.
	Plugin, Kind, Action string
	// ID is what the action calls the operation.
	ID string
	// Key is the UID of the run that the operation belongs to, and Subject the Backup or
	// Restore in the form of velero.io/v1.
	Key     string
	Subject []byte
	// Parameters are what the user configured for the action.
	Parameters map[string]string
	// Log receives what the plugin logs during the call, and RunLog what may belong to
	// other calls of the same run.
	Log, RunLog logr.Logger
}

// Asker asks actions. It is safe for concurrent use.
type Asker struct {
	// Actions finds them.
	Actions Actions
	// Redactor keeps secrets out of what they say.
	Redactor *redact.Redactor
	// Timeout bounds each call.
	Timeout time.Duration
}

// Progress asks how far an operation is.
func (a *Asker) Progress(ctx context.Context, target Target) (item.Progress, *operation.Failure) {
	var progress item.Progress
	failure := a.ask(ctx, target, func(ctx context.Context, conn grpc.ClientConnInterface, call adapter.ItemCall, action adapter.Operations, op adapter.Operation) error {
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

// Cancel asks for the end of an operation. No failure means that the action acknowledged
// that, not that the operation has ended.
func (a *Asker) Cancel(ctx context.Context, target Target) *operation.Failure {
	return a.ask(ctx, target, func(ctx context.Context, conn grpc.ClientConnInterface, call adapter.ItemCall, action adapter.Operations, op adapter.Operation) error {
		return action.Cancel(ctx, conn, call, op)
	})
}

type askFunc func(ctx context.Context, conn grpc.ClientConnInterface, call adapter.ItemCall, action adapter.Operations, op adapter.Operation) error

func (a *Asker) ask(ctx context.Context, target Target, fn askFunc) *operation.Failure {
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	var err error
	switch sdk.Kind(target.Kind) {
	case sdk.KindRestoreItemAction, sdk.KindAsyncRestoreItemAction:
		err = do(ctx, a, target, a.Actions.RestoreItemAction(target.Plugin, target.Kind, target.Action), fn)
	default:
		err = do(ctx, a, target, a.Actions.BackupItemAction(target.Plugin, target.Kind, target.Action), fn)
	}
	if err != nil {
		return a.failureOf(err)
	}
	return nil
}

func do[A adapter.Operations](ctx context.Context, a *Asker, target Target, resolve caller.Resolve[A], fn askFunc) error {
	return caller.New(resolve, a.Redactor).Do(ctx, process.Call{Key: target.Key, Log: target.Log, RunLog: target.RunLog},
		func(ctx context.Context, conn grpc.ClientConnInterface, callID string, action A) error {
			call := adapter.ItemCall{Action: target.Action, ID: callID, Key: target.Key, Parameters: target.Parameters}
			return fn(ctx, conn, call, action, adapter.Operation{ID: target.ID, Subject: target.Subject})
		})
}

// failureOf tells apart what the plugin answered and that it did not.
func (a *Asker) failureOf(err error) *operation.Failure {
	var failed *caller.Error
	if !errors.As(err, &failed) {
		return &operation.Failure{Text: "internal error; see the operator's log"}
	}
	failure := &operation.Failure{Text: failed.Text}
	switch failed.Kind {
	case executor.Failed:
		failure.Answered = true
	case executor.Invalid:
		// Of these only the plugin's own answers are about the operation.
		failure.Answered = !errors.Is(err, caller.ErrNoSuchAction) && !errors.As(err, new(*process.StartError))
	case executor.Timeout:
		failure.Text = fmt.Sprintf("it did not answer within %s", a.Timeout)
	default:
	}
	failure.Unknown = failure.Answered && errors.Is(err, adapter.ErrUnknownOperation)
	return failure
}
