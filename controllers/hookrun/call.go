// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	kuberun "github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/plugin/caller"
	"github.com/grapnel-dev/grapnel/internal/runlog"
)

// call makes one call of the current attempt, within its deadline.
func (r *Reconciler) call(ctx context.Context, run *v1alpha1.HookRun) (executor.Answer, error) {
	attempt := openAttempt(run)
	call := executor.Call{
		Point: string(run.Spec.Hook), Action: run.Spec.PluginName,
		Key: string(run.UID), Attempt: attempt.Number, Parameters: kuberun.PlainMap(run.Spec.Parameters),
	}
	ctx, cancel := context.WithDeadline(ctx, attempt.Deadline.Time)
	defer cancel()
	// The deadline is what counts for all calls of the attempt together. It was
	// rounded up to be stored, which a single call need not profit from.
	ctx, cancelCall := context.WithTimeout(ctx, run.Spec.Timeout.Duration)
	defer cancelCall()
	if err := r.context(ctx, run, &call); err != nil {
		return executor.Answer{}, unread(ctx, call, err)
	}
	action, err := r.Catalog.Executor(run.Spec.PluginRef.Name, call.Kind(), call.Action)
	if errors.Is(err, caller.ErrNoSuchAction) {
		return executor.Answer{}, executor.NewError(executor.Invalid, call,
			fmt.Sprintf("Plugin %s does not provide the action any more; look at it with kubectl get plugin %s -o yaml",
				run.Spec.PluginRef.Name, run.Spec.PluginRef.Name), err)
	}
	if err != nil {
		return executor.Answer{}, executor.NewError(executor.Unreachable, call,
			fmt.Sprintf("Plugin %s is not loaded; look at it with kubectl get plugin %s",
				run.Spec.PluginRef.Name, run.Spec.PluginRef.Name), err)
	}
	log := r.Logs.Logger(run.Spec.Subject.UID, stream(run.Spec.Hook)).
		WithValues("hook", run.Spec.Hook, "action", call.Action, "attempt", call.Attempt)
	log.Info("Calling the action")
	answer, err := action.Execute(logr.NewContext(ctx, log), call)
	if err != nil {
		log.Error(err, "The action failed")
	} else {
		log.Info("The action answered", "message", answer.Message, "again", answer.Again.String())
	}
	return answer, err
}

// unread is the error of a call for which something could not be read. A run that
// is cancelled, or an operator that ends, meanwhile says nothing about the plugin.
func unread(ctx context.Context, call executor.Call, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return executor.NewError(executor.Interrupted, call, "was interrupted before it was called", errors.Join(ctx.Err(), err))
	case ctx.Err() != nil:
		return executor.NewError(executor.Timeout, call, "what the action needs to know could not be read in time", errors.Join(ctx.Err(), err))
	}
	return executor.NewError(executor.Unreachable, call, "what the action needs to know could not be read", err)
}

// stream is the log that a point logs to.
func stream(hook v1alpha1.HookPoint) runlog.Stream {
	if hook == v1alpha1.HookPostBackup || hook == v1alpha1.HookPostRestore {
		return runlog.PostActions
	}
	return runlog.Main
}
