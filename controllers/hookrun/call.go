// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	kuberun "github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/plugin/caller"
	"github.com/grapnel-dev/grapnel/internal/runlog"
)

// call makes one call of the current attempt, within its deadline.
func (r *Reconciler) call(ctx context.Context, run *v1alpha1.HookRun) (called, error) {
	attempt := openAttempt(run)
	call := callOf(run)
	ctx, cancel := context.WithDeadline(ctx, attempt.Deadline.Time)
	defer cancel()
	// The deadline is what counts for all calls of the attempt together. It was
	// rounded up to be stored, which a single call need not profit from.
	ctx, cancelCall := context.WithTimeout(ctx, run.Spec.Timeout.Duration)
	defer cancelCall()
	if err := r.context(ctx, run, &call); err != nil {
		// What is gone does not come back.
		return called{unasked: !isGone(err)}, unread(ctx, call, err)
	}
	action, err := r.Catalog.Executor(run.Spec.PluginRef.Name, call.Kind(), call.Action)
	if errors.Is(err, caller.ErrNoSuchAction) {
		return called{unasked: true}, withdrawn(run, call, err)
	}
	if err != nil {
		return called{unasked: true}, executor.NewError(executor.Unreachable, call,
			fmt.Sprintf("Plugin %s is not loaded; look at it with kubectl get plugin %s",
				run.Spec.PluginRef.Name, run.Spec.PluginRef.Name), err)
	}
	log := r.log(run, call)
	log.Info("Calling the action")
	answer, err := action.Execute(logr.NewContext(ctx, log), call)
	if err != nil {
		log.Error(err, "The action failed")
	} else {
		log.Info("The action answered", "message", answer.Message, "again", answer.Again.String())
	}
	by, _ := action.(executor.Resumer)
	return called{Answer: answer, by: by}, err
}

// start is call for an attempt that begins, or goes on with another call: what cannot be read
// fails it.
func (r *Reconciler) start(ctx context.Context, run *v1alpha1.HookRun) (called, error) {
	made, err := r.call(ctx, run)
	made.unasked = false
	return made, err
}

// withdrawn is the error of a call whose action the Plugin does not have any more.
func withdrawn(run *v1alpha1.HookRun, call executor.Call, err error) error {
	return executor.NewError(executor.Invalid, call,
		fmt.Sprintf("Plugin %s does not provide the action any more; look at it with kubectl get plugin %s -o yaml",
			run.Spec.PluginRef.Name, run.Spec.PluginRef.Name), err)
}

// callOf returns the call of the last attempt, without what has to be read for it.
func callOf(run *v1alpha1.HookRun) executor.Call {
	return executor.Call{
		Point: string(run.Spec.Hook), Action: run.Spec.PluginName,
		Key: string(run.UID), Attempt: run.Status.Attempt, Parameters: kuberun.PlainMap(run.Spec.Parameters),
	}
}

// resumer returns what ends and, if the plugin provides it still, runs the action of a run; nil
// if what the action begins does not go on without the operator, or the plugin is not loaded.
func (r *Reconciler) resumer(run *v1alpha1.HookRun) (by executor.Resumer, provided bool) {
	action, err := r.Catalog.Executor(run.Spec.PluginRef.Name, callOf(run).Kind(), run.Spec.PluginName)
	if errors.Is(err, caller.ErrNoSuchAction) {
		return r.Catalog.Resumer(run.Spec.PluginRef.Name), false
	}
	if err != nil {
		return nil, false
	}
	by, _ = action.(executor.Resumer)
	return by, true
}

// ranBy returns what ran the action of a run, if what it left can be removed; nil if not. That
// is what was called: its Plugin may have been changed since.
func (r *Reconciler) ranBy(run *v1alpha1.HookRun, ended *answer) executor.Resumer {
	if ended != nil && ended.Value.by != nil {
		return ended.Value.by
	}
	by, _ := r.resumer(run)
	return by
}

// observe looks at what else is known of the current attempt.
func (r *Reconciler) observe(run *v1alpha1.HookRun, ended *answer, known bool) observed {
	seen := observed{known: known, ended: ended}
	if run.Status.Attempt == 0 {
		return seen
	}
	by, provided := r.resumer(run)
	seen.resumes = by != nil && isCalled(run)
	seen.withdrawn = seen.resumes && !provided
	// As long as the plugin is not loaded, nobody knows.
	seen.leaves = (ended == nil || !ended.Value.cleared) && (r.ranBy(run, ended) != nil || !r.isTried(run))
	return seen
}

// clearTime is how long it may take to end what another operator left running.
const clearTime = time.Minute

// clear ends what another operator left running of an attempt that is cancelled or overdue, or
// cannot be followed, and says which of these it is. What cannot be ended ends at its own
// deadline. What ended by itself before the attempt was overdue has its answer, and is left
// until that is recorded.
func (r *Reconciler) clear(ctx context.Context, run *v1alpha1.HookRun) (was called, err error) {
	call, deadline := callOf(run), openAttempt(run).Deadline.Time
	log := r.log(run, call)
	ctx, cancel := context.WithTimeout(logr.NewContext(ctx, log), clearTime)
	defer cancel()
	ended := false
	was.by, _ = r.resumer(run)
	switch {
	case !r.Now().Before(deadline):
		was.Answer, ended, err = r.ended(ctx, was.by, call, deadline)
	case stop(run):
		err = executor.NewError(executor.Interrupted, call, "was cancelled while another operator took over", context.Canceled)
	default:
		err = withdrawn(run, call, caller.ErrNoSuchAction)
	}
	if was.by == nil || ended {
		return was, err
	}
	log.Info("Ending what was left running of the action")
	stopErr := was.by.Stop(ctx, call)
	if was.cleared = stopErr == nil; !was.cleared {
		log.Error(stopErr, "It was not ended, and ends at its own deadline")
	}
	return was, err
}

// ended returns what an attempt came to that is overdue.
func (r *Reconciler) ended(
	ctx context.Context, action executor.Resumer, call executor.Call, deadline time.Time,
) (answer executor.Answer, ended bool, err error) {
	log := logr.FromContextOrDiscard(ctx)
	if action != nil {
		answer, ended, err = action.Ended(ctx, call, deadline)
	}
	switch {
	case ended:
		log.Info("The action ended in time, while no operator was there", "message", answer.Message)
		return answer, true, err
	case executor.KindOf(err) == executor.Timeout:
		return answer, false, err
	case err != nil:
		log.Error(err, "It is not known whether the action ended in time")
	}
	return answer, false, executor.NewError(executor.Timeout, call,
		"did not end before its deadline, which passed while another operator took over", context.DeadlineExceeded)
}

// log is where what an action does is told.
func (r *Reconciler) log(run *v1alpha1.HookRun, call executor.Call) logr.Logger {
	return r.Logs.Logger(run.Spec.Subject.UID, stream(run.Spec.Hook)).
		WithValues("hook", run.Spec.Hook, "action", call.Action, "attempt", call.Attempt)
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
