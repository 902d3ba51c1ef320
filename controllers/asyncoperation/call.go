// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/operation"
	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/internal/plugin/caller"
	"github.com/grapnel-dev/grapnel/internal/plugin/process"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// called is what a call came to. A call that fails has a failure and no error: an error
// of a run is one inside the operator.
type called struct {
	progress item.Progress
	failure  *operation.Failure
}

// start starts a call in the background, unless it is on its way. It says whether that
// was possible.
func (r *Reconciler) start(k *known, id string, call func(context.Context, *known) (called, error)) bool {
	return r.calls.Ensure(id, k.name, func(ctx context.Context) (called, error) {
		leave, err := r.places.take(ctx, k.plugin)
		if err != nil {
			return called{}, fmt.Errorf("waiting for other calls of the plugin: %w", err)
		}
		defer leave()
		ctx, cancel := context.WithTimeout(ctx, r.Limits.CallTimeout)
		defer cancel()
		return call(ctx, k)
	})
}

// observe returns what calls came to.
func (r *Reconciler) observe(k *known) operation.Seen {
	var seen operation.Seen
	if outcome, is := r.calls.State(k.pollID); is {
		if seen.Polling = outcome == nil; outcome != nil {
			seen.Poll = &operation.Poll{Progress: outcome.Value.progress, Failure: failureOf(outcome.Value, outcome.Err)}
		}
	}
	if outcome, is := r.calls.State(k.cancelID); is {
		if seen.Cancelling = outcome == nil; outcome != nil {
			seen.Cancel = &operation.Cancel{Failure: failureOf(outcome.Value, outcome.Err)}
		}
	}
	return seen
}

// consume lets go of what was observed.
func (r *Reconciler) consume(k *known, seen operation.Seen) {
	if seen.Poll != nil {
		r.calls.Forget(k.pollID)
	}
	if seen.Cancel != nil {
		r.calls.Forget(k.cancelID)
	}
}

func failureOf(value called, err error) *operation.Failure {
	if err != nil {
		return &operation.Failure{Text: "internal error; see the operator's log"}
	}
	return value.failure
}

// poll asks how far an operation is.
func (r *Reconciler) poll(ctx context.Context, k *known) (out called, err error) {
	r.Metrics.polls.WithLabelValues(k.plugin).Inc()
	err = r.call(ctx, k, func(ctx context.Context, conn grpc.ClientConnInterface, call adapter.ItemCall, action adapter.Operations, op adapter.Operation) error {
		var err error
		out.progress, err = action.Progress(ctx, conn, call, op)
		return err
	})
	if err != nil {
		r.Metrics.pollErrors.WithLabelValues(k.plugin).Inc()
		return called{failure: r.failureOfCall(err)}, nil
	}
	for _, text := range []*string{&out.progress.Err, &out.progress.OperationUnits, &out.progress.Description} {
		*text = r.Redactor.String(*text)
	}
	return out, nil
}

// cancel asks for the end of an operation.
func (r *Reconciler) cancel(ctx context.Context, k *known) (called, error) {
	err := r.call(ctx, k, func(ctx context.Context, conn grpc.ClientConnInterface, call adapter.ItemCall, action adapter.Operations, op adapter.Operation) error {
		return action.Cancel(ctx, conn, call, op)
	})
	if err != nil {
		return called{failure: r.failureOfCall(err)}, nil
	}
	return called{}, nil
}

// ask makes one call about an operation.
type ask func(ctx context.Context, conn grpc.ClientConnInterface, call adapter.ItemCall, action adapter.Operations, op adapter.Operation) error

func (r *Reconciler) call(ctx context.Context, k *known, fn ask) error {
	switch k.kind {
	case v1alpha1.ActionKindRestoreItem, v1alpha1.ActionKindAsyncRestoreItem:
		return call(ctx, r, k, r.Actions.RestoreItemAction(k.plugin, string(k.kind), k.action), fn)
	default:
		return call(ctx, r, k, r.Actions.BackupItemAction(k.plugin, string(k.kind), k.action), fn)
	}
}

func call[A adapter.Operations](ctx context.Context, r *Reconciler, k *known, resolve caller.Resolve[A], fn ask) error {
	log := ctrl.Log.WithName("asyncoperation").WithValues("plugin", k.plugin, "for", k.subject.Name)
	about := process.Call{Key: k.subject.UID, Log: log.WithValues("action", k.action, "operation", k.name.Name), RunLog: log}
	subject, parameters := k.parent.seen(k.action)
	return caller.New(resolve, r.Redactor).Do(ctx, about,
		func(ctx context.Context, conn grpc.ClientConnInterface, callID string, action A) error {
			return fn(ctx, conn,
				adapter.ItemCall{Action: k.action, ID: callID, Key: k.subject.UID, Parameters: parameters}, action,
				adapter.Operation{ID: k.id, Subject: subject})
		})
}

// failureOfCall tells apart what the plugin answered and that it did not.
func (r *Reconciler) failureOfCall(err error) *operation.Failure {
	var failed *caller.Error
	if !errors.As(err, &failed) {
		return failureOf(called{}, err)
	}
	failure := &operation.Failure{Text: failed.Text, Unknown: errors.Is(err, adapter.ErrUnknownOperation)}
	switch failed.Kind {
	case executor.Failed:
		failure.Answered = true
	case executor.Invalid:
		// Of these only the plugin's own answers are about the operation.
		failure.Answered = !errors.Is(err, caller.ErrNoSuchAction) && !errors.As(err, new(*process.StartError))
	case executor.Timeout:
		failure.Text = fmt.Sprintf("it did not answer within %s", r.Limits.CallTimeout)
	default:
	}
	failure.Answered = failure.Answered || failure.Unknown
	return failure
}
