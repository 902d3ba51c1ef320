// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	kuberun "github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/plugin/caller"
	"github.com/grapnel-dev/grapnel/internal/runlog"
)

// callAction makes one call of the current attempt, within its deadline.
func (r *Reconciler) callAction(ctx context.Context, run *v1alpha1.HookRun) (callResult, error) {
	attempt := openAttempt(run)
	call := newCall(run)
	ctx, cancel := context.WithDeadline(ctx, attempt.Deadline.Time)
	defer cancel()
	// The deadline is what counts for all calls of the attempt together. It was
	// rounded up to be stored, which a single call need not profit from.
	ctx, cancelCall := context.WithTimeout(ctx, run.Spec.Timeout.Duration)
	defer cancelCall()
	if err := r.addCallContext(ctx, run, &call); err != nil {
		// What is gone does not come back.
		return callResult{notAttempted: !isNotFoundOrReplaced(err)}, contextError(ctx, call, err)
	}
	action, err := r.Catalog.Executor(run.Spec.PluginRef.Name, call.ActionKind(), call.Action)
	if errors.Is(err, caller.ErrNoSuchAction) {
		return callResult{notAttempted: true}, errActionRemoved(run, call, err)
	}
	if err != nil {
		return callResult{notAttempted: true}, executor.NewError(executor.Unreachable, call,
			fmt.Sprintf("Plugin %s is not loaded; look at it with kubectl get plugin %s",
				run.Spec.PluginRef.Name, run.Spec.PluginRef.Name), err)
	}
	if err := r.verifyNotSuperseded(ctx, run); err != nil {
		return callResult{superseded: errors.Is(err, errSuperseded), notAttempted: true}, contextError(ctx, call, err)
	}
	log := r.callLogger(run, call)
	log.Info("Calling the action")
	answer, err := action.Execute(logr.NewContext(ctx, log), call)
	if err != nil {
		log.Error(err, "The action failed")
	} else {
		log.Info("The action answered", "message", answer.Message, "again", answer.RetryAfter.String())
	}
	by, _ := action.(executor.Resumable)
	return callResult{Answer: answer, executor: by}, err
}

// errSuperseded means that an attempt is no longer this operator's to call.
var errSuperseded = errors.New("another operator has taken over")

// verifyNotSuperseded returns nil if the attempt may be called now: this operator leads, and none moved
// the run on since the attempt was recorded. The process may have been paused at any time
// since then, and another operator may have done all that was to be done meanwhile.
func (r *Reconciler) verifyNotSuperseded(ctx context.Context, run *v1alpha1.HookRun) error {
	if err := r.awaitLease(ctx); err != nil {
		return err
	}
	var live v1alpha1.HookRun
	err := readWithRetry(ctx, func(ctx context.Context) error { return r.Reader.Get(ctx, client.ObjectKeyFromObject(run), &live) })
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: HookRun %s is gone", errSuperseded, run.Name)
	case err != nil:
		return fmt.Errorf("reading HookRun %s: %w", run.Name, err)
	case live.UID != run.UID || live.Status.Attempt != run.Status.Attempt || !hasUnansweredCall(&live):
		return fmt.Errorf("%w: HookRun %s was moved on", errSuperseded, run.Name)
	}
	return r.awaitLease(ctx)
}

// awaitLease waits until the operator may act. If it never may, it has been superseded.
func (r *Reconciler) awaitLease(ctx context.Context) error {
	err := r.Fence.WaitForLease(ctx)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", errSuperseded, err)
	}
	return err
}

// callActionOrFail is call for an attempt that begins, or goes on with another call: what cannot be read
// fails it.
func (r *Reconciler) callActionOrFail(ctx context.Context, run *v1alpha1.HookRun) (callResult, error) {
	made, err := r.callAction(ctx, run)
	made.notAttempted = false
	return made, err
}

// errActionRemoved is the error of a call whose action the Plugin does not have any more.
func errActionRemoved(run *v1alpha1.HookRun, call executor.Call, err error) error {
	return executor.NewError(executor.Invalid, call,
		fmt.Sprintf("Plugin %s does not provide the action any more; look at it with kubectl get plugin %s -o yaml",
			run.Spec.PluginRef.Name, run.Spec.PluginRef.Name), err)
}

// newCall returns the call of the last attempt, without what has to be read for it.
func newCall(run *v1alpha1.HookRun) executor.Call {
	return executor.Call{
		Point: string(run.Spec.Hook), Action: run.Spec.PluginName,
		Key: string(run.UID), Attempt: run.Status.Attempt, Parameters: kuberun.ToStringMap(run.Spec.Parameters),
	}
}

// resumableExecutor returns what ends and, if the plugin provides it still, runs the action of a run; nil
// if what the action begins does not go on without the operator, or the plugin is not loaded.
func (r *Reconciler) resumableExecutor(run *v1alpha1.HookRun) (by executor.Resumable, provided bool) {
	action, err := r.Catalog.Executor(run.Spec.PluginRef.Name, newCall(run).ActionKind(), run.Spec.PluginName)
	if errors.Is(err, caller.ErrNoSuchAction) {
		return r.Catalog.ResumableExecutor(run.Spec.PluginRef.Name), false
	}
	if err != nil {
		return nil, false
	}
	by, _ = action.(executor.Resumable)
	return by, true
}

// executorFor returns what ran the action of a run, if what it left can be removed; nil if not. That
// is what was called: its Plugin may have been changed since.
func (r *Reconciler) executorFor(run *v1alpha1.HookRun, ended *callOutcome) executor.Resumable {
	if ended != nil && ended.Value.executor != nil {
		return ended.Value.executor
	}
	by, _ := r.resumableExecutor(run)
	return by
}

// observeAttempt looks at what else is known of the current attempt.
func (r *Reconciler) observeAttempt(run *v1alpha1.HookRun, ended *callOutcome, known bool) observed {
	seen := observed{inFlight: known, result: ended}
	if run.Status.Attempt == 0 {
		return seen
	}
	if next := run.Status.NextCallTimestamp; next != nil {
		now := r.Now()
		seen.nextCall = now.Add(r.nextCalls.TimeUntilDue(client.ObjectKeyFromObject(run), next.Time, maxCallDelay(run), now))
	}
	by, provided := r.resumableExecutor(run)
	seen.resumable = by != nil && hasUnansweredCall(run)
	seen.actionRemoved = seen.resumable && !provided
	// As long as the plugin is not loaded, nobody knows.
	seen.mayLeaveResources = (ended == nil || !ended.Value.leftoversStopped) && (r.executorFor(run, ended) != nil || !r.isPluginLoadAttempted(run))
	return seen
}

// stopTimeout is how long it may take to end what another operator left running.
const stopTimeout = time.Minute

// stopLeftovers ends what another operator left running of an attempt that is cancelled or overdue, or
// cannot be followed, and says which of these it is. What cannot be ended ends at its own
// deadline. What ended by itself before the attempt was overdue has its answer, and is left
// until that is recorded.
func (r *Reconciler) stopLeftovers(ctx context.Context, run *v1alpha1.HookRun) (was callResult, err error) {
	call, deadline := newCall(run), openAttempt(run).Deadline.Time
	log := r.callLogger(run, call)
	ctx, cancel := context.WithTimeout(logr.NewContext(ctx, log), stopTimeout)
	defer cancel()
	ended := false
	was.executor, _ = r.resumableExecutor(run)
	switch {
	case !r.Now().Before(deadline):
		was.Answer, ended, err = r.collectResult(ctx, was.executor, call, deadline)
	case shouldCancel(run):
		err = executor.NewError(executor.Interrupted, call, "was cancelled while another operator took over", context.Canceled)
	default:
		err = errActionRemoved(run, call, caller.ErrNoSuchAction)
	}
	if was.executor == nil || ended {
		return was, err
	}
	log.Info("Ending what was left running of the action")
	stopErr := was.executor.Stop(ctx, call)
	if was.leftoversStopped = stopErr == nil; !was.leftoversStopped {
		log.Error(stopErr, "It was not ended, and ends at its own deadline")
	}
	return was, err
}

// collectResult returns what an attempt came to that is overdue.
func (r *Reconciler) collectResult(
	ctx context.Context, action executor.Resumable, call executor.Call, deadline time.Time,
) (answer executor.Answer, ended bool, err error) {
	log := logr.FromContextOrDiscard(ctx)
	if action != nil {
		answer, ended, err = action.CollectResult(ctx, call, deadline)
	}
	switch {
	case ended:
		log.Info("The action ended in time, while no operator was there", "message", answer.Message)
		return answer, true, err
	case executor.ErrorKindOf(err) == executor.Timeout:
		return answer, false, err
	case err != nil:
		log.Error(err, "It is not known whether the action ended in time")
	}
	return answer, false, executor.NewError(executor.Timeout, call,
		"did not end before its deadline, which passed while another operator took over", context.DeadlineExceeded)
}

// callLogger is where what an action does is told.
func (r *Reconciler) callLogger(run *v1alpha1.HookRun, call executor.Call) logr.Logger {
	return r.Logs.Logger(run.Spec.Subject.UID, logStreamFor(run.Spec.Hook)).
		WithValues("hook", run.Spec.Hook, "action", call.Action, "attempt", call.Attempt)
}

// contextError is the error of a call for which something could not be read. A run that
// is cancelled, or an operator that ends, meanwhile says nothing about the plugin.
func contextError(ctx context.Context, call executor.Call, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return executor.NewError(executor.Interrupted, call, "was interrupted before it was called", errors.Join(ctx.Err(), err))
	case ctx.Err() != nil:
		return executor.NewError(executor.Timeout, call, "what the action needs to know could not be read in time", errors.Join(ctx.Err(), err))
	}
	return executor.NewError(executor.Unreachable, call, "what the action needs to know could not be read", err)
}

// logStreamFor is the log that a point logs to.
func logStreamFor(hook v1alpha1.HookPoint) runlog.Stream {
	if hook == v1alpha1.HookPostBackup || hook == v1alpha1.HookPostRestore {
		return runlog.PostActions
	}
	return runlog.Main
}
