// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/internal/kube/operation"
	"github.com/grapnel-dev/grapnel/internal/plugin/operations"
	"github.com/grapnel-dev/grapnel/internal/runner"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// called is what a call came to.
type called struct {
	progress item.Progress
	failure  *operation.Failure
}

// start starts a call in the background, when there is a place for it, unless it is on
// its way. It says whether that was possible.
func (r *Reconciler) start(k *known, id string, place takePlace, call func(context.Context, *known) called) bool {
	return r.calls.Ensure(id, k.name, func(ctx context.Context) (called, error) {
		leave, err := place(ctx, k)
		if err != nil {
			return called{}, fmt.Errorf("waiting for other calls of the plugin: %w", err)
		}
		defer leave()
		return call(ctx, k), nil
	})
}

// takePlace waits for a place for a call about an operation, and returns what leaves it.
type takePlace func(context.Context, *known) (leave func(), err error)

// placeToCancel takes a place beside the questions how far operations are.
func (r *Reconciler) placeToCancel(ctx context.Context, k *known) (leave func(), err error) {
	leave, _, err = r.cancels.take(ctx, k.plugin, nil)
	return leave, err
}

// placeToPoll takes a place among the questions how far operations are. Those that hang
// must not use up the time in which the end of an operation has to be confirmed: when its
// Cancel was answered it is asked about beside them.
func (r *Reconciler) placeToPoll(ctx context.Context, k *known) (leave func(), err error) {
	leave, taken, err := r.polls.take(ctx, k.plugin, k.hurry)
	if taken || err != nil {
		return leave, err
	}
	leave, _, err = r.confirms.take(ctx, k.plugin, nil)
	return leave, err
}

// observe returns what calls came to.
func (r *Reconciler) observe(k *known) operation.Seen {
	var seen operation.Seen
	if outcome, is := r.calls.State(k.pollID); is {
		if seen.Polling = outcome == nil; outcome != nil {
			seen.Poll = &operation.Poll{Progress: outcome.Value.progress, Failure: r.failureOf(k, outcome)}
		}
	}
	if outcome, is := r.calls.State(k.cancelID); is {
		seen.Queued = outcome == nil && !k.cancelling.Load()
		if seen.Cancelling = outcome == nil; outcome != nil {
			seen.Cancel = &operation.Cancel{Failure: r.failureOf(k, outcome)}
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
		k.cancelling.Store(false)
		r.calls.Forget(k.cancelID)
	}
}

// failureOf returns why a call did not succeed. An error is one inside the operator.
func (r *Reconciler) failureOf(k *known, outcome *runner.Outcome[called]) *operation.Failure {
	if outcome.Err != nil {
		r.logger(k.name).Error(outcome.Err, "A call of a plugin failed inside the operator")
		return &operation.Failure{Text: "internal error; see the operator's log"}
	}
	return outcome.Value.failure
}

// poll asks how far an operation is.
func (r *Reconciler) poll(ctx context.Context, k *known) called {
	progress, failure := r.asker.Progress(ctx, k.target())
	r.Metrics.polls.WithLabelValues(k.plugin).Inc()
	if failure != nil {
		r.Metrics.pollErrors.WithLabelValues(k.plugin).Inc()
	}
	return called{progress: progress, failure: failure}
}

// cancel asks for the end of an operation.
func (r *Reconciler) cancel(ctx context.Context, k *known) called {
	k.cancelling.Store(true)
	return called{failure: r.asker.Cancel(ctx, k.target())}
}

// target is what plugins are told about an operation.
func (k *known) target() operations.Target {
	log := ctrl.Log.WithName("asyncoperation").WithValues("plugin", k.plugin, "for", k.subject.Name)
	subject, parameters := k.parent.seen(k.action)
	return operations.Target{
		Plugin: k.plugin, Kind: string(k.kind), Action: k.action, ID: k.id,
		Key: k.subject.UID, Subject: subject, Parameters: parameters,
		Log: log.WithValues("action", k.action, "operation", k.name.Name), RunLog: log,
	}
}
