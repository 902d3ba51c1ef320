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
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/runlog"
)

// callAction makes one call of the current attempt, within its deadline.
func (r *Reconciler) callAction(ctx context.Context, run *v1alpha1.HookRun) (callResult, error) {
	attempt := openAttempt(run)
	call := newCall(run)
	ctx, cancel := context.WithDeadline(ctx, attempt.Deadline.Time)
	defer cancel()
	// The deadline limits all calls of the attempt together. It was rounded up to be
	// stored, and a single call does not get the extra time.
	ctx, cancelCall := context.WithTimeout(ctx, run.Spec.Timeout.Duration)
	defer cancelCall()
	if err := r.addCallContext(ctx, run, &call); err != nil {
		// A deleted parent does not come back.
		return callResult{notAttempted: !isNotFoundOrReplaced(err)}, contextError(ctx, call, err)
	}
	action, err := r.Catalog.Executor(run.Spec.PluginRef.Name, call.ActionKind(), call.Action)
	if errors.Is(err, pluginclient.ErrNoSuchAction) {
		return callResult{notAttempted: true}, errActionRemoved(run, call, err)
	}
	if err != nil {
		return callResult{notAttempted: true}, executor.NewError(executor.Unreachable, call,
			fmt.Sprintf("Plugin %s is not loaded; check it with kubectl get plugin %s",
				run.Spec.PluginRef.Name, run.Spec.PluginRef.Name), err)
	}
	if err := r.verifyNotSuperseded(ctx, run); err != nil {
		return callResult{superseded: errors.Is(err, errSuperseded), notAttempted: true}, contextError(ctx, call, err)
	}
	log := r.callLogger(run, call)
	log.Info("Calling the action")
	answer, err := action.Execute(logr.NewContext(r.Tracer.WithAttempt(ctx, run), log), call)
	if err != nil {
		log.Error(err, "The action failed")
	} else {
		log.Info("The action answered", "message", answer.Message, "again", answer.RetryAfter.String())
	}
	by, _ := action.(executor.Resumable)
	return callResult{Answer: answer, executor: by}, err
}

// errSuperseded means that this operator must not call the attempt any longer.
var errSuperseded = errors.New("another operator has taken over")

// verifyNotSuperseded returns nil if the attempt may be called now: this operator is the leader,
// and no other operator advanced the HookRun since the attempt was recorded. The process may have
// been paused since then, while another operator finished the work.
func (r *Reconciler) verifyNotSuperseded(ctx context.Context, run *v1alpha1.HookRun) error {
	if err := r.awaitLease(ctx); err != nil {
		return err
	}
	var live v1alpha1.HookRun
	err := readWithRetry(ctx, func(ctx context.Context) error { return r.Reader.Get(ctx, client.ObjectKeyFromObject(run), &live) })
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: HookRun %s was deleted", errSuperseded, run.Name)
	case err != nil:
		return fmt.Errorf("reading HookRun %s: %w", run.Name, err)
	case live.UID != run.UID || live.Status.Attempt != run.Status.Attempt || !hasUnansweredCall(&live):
		return fmt.Errorf("%w: HookRun %s was changed", errSuperseded, run.Name)
	}
	return r.awaitLease(ctx)
}

// awaitLease waits until the operator may act. It returns errSuperseded if that never happens.
func (r *Reconciler) awaitLease(ctx context.Context) error {
	err := r.Fence.WaitForLease(ctx)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", errSuperseded, err)
	}
	return err
}

// callActionOrFail is callAction for a new attempt, or for another call of an open one: a read
// error fails the attempt.
func (r *Reconciler) callActionOrFail(ctx context.Context, run *v1alpha1.HookRun) (callResult, error) {
	made, err := r.callAction(ctx, run)
	made.notAttempted = false
	return made, err
}

// errActionRemoved is the error of a call whose action the Plugin no longer provides.
func errActionRemoved(run *v1alpha1.HookRun, call executor.Call, err error) error {
	return executor.NewError(executor.Invalid, call,
		fmt.Sprintf("Plugin %s no longer provides the action; check it with kubectl get plugin %s -o yaml",
			run.Spec.PluginRef.Name, run.Spec.PluginRef.Name), err)
}

// newCall returns the call of the last attempt, without the input that must be read.
func newCall(run *v1alpha1.HookRun) executor.Call {
	call := executor.Call{
		Point: string(run.Spec.Hook), Action: run.Spec.ActionName,
		Key: string(run.UID), Attempt: run.Status.Attempt, Parameters: lifecycle.ToStringMap(run.Spec.Parameters),
	}
	if len(run.Status.Outputs) > 0 {
		call.Progress = lifecycle.ToStringMap(run.Status.Outputs)
	}
	return call
}

// resumableExecutor returns the executor that stops the action of a HookRun, and whether the plugin
// still provides the action. The executor is nil if the action does not continue without the
// operator, or if the plugin is not loaded.
func (r *Reconciler) resumableExecutor(run *v1alpha1.HookRun) (by executor.Resumable, provided bool) {
	action, err := r.Catalog.Executor(run.Spec.PluginRef.Name, newCall(run).ActionKind(), run.Spec.ActionName)
	if errors.Is(err, pluginclient.ErrNoSuchAction) {
		return r.Catalog.ResumableExecutor(run.Spec.PluginRef.Name), false
	}
	if err != nil {
		return nil, false
	}
	by, _ = action.(executor.Resumable)
	return by, true
}

// executorFor returns the executor that ran the action of a HookRun; nil if it cannot remove
// leftovers. It prefers the executor of the call, because the Plugin may have changed since.
func (r *Reconciler) executorFor(run *v1alpha1.HookRun, ended *callOutcome) executor.Resumable {
	if ended != nil && ended.Value.executor != nil {
		return ended.Value.executor
	}
	by, _ := r.resumableExecutor(run)
	return by
}

// observeAttempt returns what is known of the current attempt besides its status.
func (r *Reconciler) observeAttempt(run *v1alpha1.HookRun, ended *callOutcome, known bool) observed {
	seen := observed{inFlight: known, result: ended, redact: r.Logs.Redactor().String}
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
	// Until the plugin is loaded, assume that resources exist.
	seen.mayLeaveResources = (ended == nil || !ended.Value.leftoversStopped) && (r.executorFor(run, ended) != nil || !r.isPluginLoadAttempted(run))
	return seen
}

// stopTimeout limits how long stopping leftovers may take.
const stopTimeout = time.Minute

// stopLeftovers stops what another operator left running of an attempt that is canceled, overdue,
// or cannot be resumed; the error tells these apart. What cannot be stopped ends at its own
// deadline. If the action ended before its deadline, stopLeftovers returns its answer and keeps its
// resources until the answer is recorded.
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
		err = executor.NewError(executor.Interrupted, call, "was canceled while another operator took over", context.Canceled)
	default:
		err = errActionRemoved(run, call, pluginclient.ErrNoSuchAction)
	}
	if was.executor == nil || ended {
		return was, err
	}
	log.Info("Stopping what another operator left running of the action")
	stopErr := was.executor.Stop(ctx, call)
	if was.leftoversStopped = stopErr == nil; !was.leftoversStopped {
		log.Error(stopErr, "Stopping the action failed; it ends at its own deadline")
	}
	return was, err
}

// collectResult returns the result of an overdue attempt, and whether the action ended in time.
func (r *Reconciler) collectResult(
	ctx context.Context, action executor.Resumable, call executor.Call, deadline time.Time,
) (answer executor.Answer, ended bool, err error) {
	log := logr.FromContextOrDiscard(ctx)
	if action != nil {
		answer, ended, err = action.CollectResult(ctx, call, deadline)
	}
	switch {
	case ended:
		log.Info("The action ended in time, while no operator was running", "message", answer.Message)
		return answer, true, err
	case executor.ErrorKindOf(err) == executor.Timeout:
		return answer, false, err
	case err != nil:
		log.Error(err, "Could not determine whether the action ended in time")
	}
	return answer, false, executor.NewError(executor.Timeout, call,
		"did not end before its deadline, which passed while another operator took over", context.DeadlineExceeded)
}

// callLogger returns the logger of a call, which writes to the log of the parent.
func (r *Reconciler) callLogger(run *v1alpha1.HookRun, call executor.Call) logr.Logger {
	parent := run.Spec.ParentRef
	return r.Logs.Logger(runlog.Run{UID: parent.UID, Kind: parent.Kind, Namespace: run.Namespace, Name: parent.Name}, logStreamFor(run.Spec.Hook)).
		WithValues("hook", run.Spec.Hook, "action", call.Action, "attempt", call.Attempt)
}

// contextError is the error of a call whose input could not be read. If the HookRun was canceled or
// the operator stopped meanwhile, the plugin is not to blame.
func contextError(ctx context.Context, call executor.Call, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return executor.NewError(executor.Interrupted, call, "was interrupted before it was called", errors.Join(ctx.Err(), err))
	case ctx.Err() != nil:
		return executor.NewError(executor.Timeout, call, "reading the input of the action timed out", errors.Join(ctx.Err(), err))
	}
	return executor.NewError(executor.Unreachable, call, "reading the input of the action failed", err)
}

// logStreamFor returns the log that the actions of a hook point write to.
func logStreamFor(hook v1alpha1.HookPoint) runlog.Stream {
	if hook == v1alpha1.HookPostBackup || hook == v1alpha1.HookPostRestore {
		return runlog.PostActions
	}
	return runlog.Main
}
