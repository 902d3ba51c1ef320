// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/internal/operation"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/runner"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// callResult is the result of a call.
type callResult struct {
	progress item.Progress
	failure  *operation.Failure
}

// startCall starts a call in the background, which first waits for a slot, unless the call is in
// flight. It reports whether that was possible.
func (r *Reconciler) startCall(k *trackedOperation, id string, place acquireSlotFunc, call func(context.Context, *trackedOperation) callResult) bool {
	return r.calls.EnsureStarted(id, k.name, func(ctx context.Context) (callResult, error) {
		leave, err := place(ctx, k)
		if err != nil {
			return callResult{}, fmt.Errorf("waiting for other calls of the plugin: %w", err)
		}
		defer leave()
		return call(r.Tracer.WithOperation(ctx, types.UID(k.parentRef.UID), k.uid), k), nil
	})
}

// acquireSlotFunc waits for the slot of a call, and returns the function that releases it.
type acquireSlotFunc func(context.Context, *trackedOperation) (leave func(), err error)

// acquireCancelSlot acquires a slot for Cancel, which is independent of those for polls.
func (r *Reconciler) acquireCancelSlot(ctx context.Context, k *trackedOperation) (leave func(), err error) {
	leave, _, err = r.cancelSlots.acquireSlot(ctx, k.plugin, nil)
	return leave, err
}

// acquirePollSlot acquires a slot for a poll. Once the Cancel of the operation was answered, it
// uses confirmSlots instead of pollSlots: polls that hang must not use up the time in which the
// end of the operation must be confirmed.
func (r *Reconciler) acquirePollSlot(ctx context.Context, k *trackedOperation) (leave func(), err error) {
	leave, taken, err := r.pollSlots.acquireSlot(ctx, k.plugin, k.priority)
	if taken || err != nil {
		return leave, err
	}
	leave, _, err = r.confirmSlots.acquireSlot(ctx, k.plugin, nil)
	return leave, err
}

// observeCalls returns the results of calls.
func (r *Reconciler) observeCalls(k *trackedOperation) operation.Observed {
	var seen operation.Observed
	if outcome, is := r.calls.LookupOutcome(k.pollID); is {
		if seen.Polling = outcome == nil; outcome != nil {
			seen.Poll = &operation.PollResult{Progress: outcome.Value.progress, Failure: r.failureForOutcome(k, outcome)}
		}
	}
	if outcome, is := r.calls.LookupOutcome(k.cancelID); is {
		seen.CancelQueued = outcome == nil && !k.cancelInFlight.Load()
		if seen.Cancelling = outcome == nil; outcome != nil {
			seen.Cancel = &operation.CancelResult{Failure: r.failureForOutcome(k, outcome)}
		}
	}
	return seen
}

// forgetObservedCalls drops the results that were observed.
func (r *Reconciler) forgetObservedCalls(k *trackedOperation, seen operation.Observed) {
	if seen.Poll != nil {
		r.calls.Forget(k.pollID)
	}
	if seen.Cancel != nil {
		k.cancelInFlight.Store(false)
		r.calls.Forget(k.cancelID)
	}
}

// failureForOutcome returns why a call failed. An error of the outcome is internal to the operator.
func (r *Reconciler) failureForOutcome(k *trackedOperation, outcome *runner.Outcome[callResult]) *operation.Failure {
	if outcome.Err != nil {
		r.operationLogger(k.name).Error(outcome.Err, "A call of a plugin failed inside the operator")
		return &operation.Failure{Text: "internal error; see the operator's log"}
	}
	return outcome.Value.failure
}

// pollProgress asks the plugin for the progress of an operation.
func (r *Reconciler) pollProgress(ctx context.Context, k *trackedOperation) callResult {
	progress, failure := r.operationClient.GetProgress(ctx, r.operationTarget(k))
	r.Metrics.polls.WithLabelValues(k.plugin).Inc()
	if failure != nil {
		r.Metrics.pollErrors.WithLabelValues(k.plugin).Inc()
	}
	return callResult{progress: progress, failure: failure}
}

// cancelOperation asks the plugin to cancel an operation.
func (r *Reconciler) cancelOperation(ctx context.Context, k *trackedOperation) callResult {
	k.cancelInFlight.Store(true)
	return callResult{failure: r.operationClient.CancelOperation(ctx, r.operationTarget(k))}
}

// operationTarget returns what plugins receive about an operation.
func (r *Reconciler) operationTarget(k *trackedOperation) pluginclient.OperationTarget {
	log := r.callLogger(k)
	parent, parameters := k.parent.viewForAction(k.action)
	return pluginclient.OperationTarget{
		Plugin: k.plugin, Kind: string(k.kind), Action: k.action, ID: k.id,
		Key: k.parentRef.UID, Parent: parent, Parameters: parameters,
		Log: log.WithValues("action", k.action, "operation", k.name.Name), RunLog: log,
	}
}

// callLogger returns the logger of a call: that of the run, and the operator's when the log of the
// run is already stored.
func (r *Reconciler) callLogger(k *trackedOperation) logr.Logger {
	run := runlog.Run{UID: k.parentRef.UID, Kind: k.parentRef.Kind, Namespace: k.name.Namespace, Name: k.parentRef.Name}
	log, open := r.Logs.OpenLogger(run, runlog.Main, &k.parent.logBudget)
	if !open {
		log = ctrl.Log.WithName("asyncoperation").WithValues("for", k.parentRef.Name)
	}
	return log.WithValues("plugin", k.plugin)
}
