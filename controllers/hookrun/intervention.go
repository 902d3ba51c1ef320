// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/intervention"
	"github.com/grapnel-dev/grapnel/internal/text"
)

// maxInterventionReason is the limit of the API for the reason of an intervention.
const maxInterventionReason = 256

// decideIntervention handles the request of a user to retry or skip the HookRun, if there is a new one.
// It reports whether it decided what comes next. The request is recorded in the same write as its
// effect, so that a crash never repeats it.
func decideIntervention(run *v1alpha1.HookRun, seen observed, now time.Time) (next decision, decided bool) {
	request, finished := intervention.UnhandledRequest(run), run.Status.CompletionTimestamp != nil
	switch {
	case request == nil, intervention.IsSkipping(run):
		return decision{}, false
	case request.Type == v1alpha1.HookInterventionRetry && !finished && seen.inFlight && seen.result != nil:
		return decision{}, false // the call has just ended: the request is handled after its outcome
	}
	refusal := intervention.RefusalReason(run, request.Type)
	recordIntervention(run, request, refusal, seen.redact, now)
	switch {
	case refusal != "":
		return decision{}, false
	case request.Type == v1alpha1.HookInterventionRetry:
		return retryNow(run, now), true
	case finished:
		return finishSkipped(run, now), true
	}
	return decision{}, false // it is skipped as if it was canceled
}

// recordIntervention records an intervention with its outcome.
func recordIntervention(run *v1alpha1.HookRun, request *v1alpha1.HookIntervention, refusal string, redact func(string) string, now time.Time) {
	run.Status.Failures = numFailedAttempts(run) // see numFailedAttempts
	handled := &v1alpha1.HandledHookIntervention{
		ID: request.ID, Type: request.Type, User: request.User,
		Reason:           text.Truncate(executor.OneLine(redact(request.Reason)), maxInterventionReason),
		HandledTimestamp: metav1.NewTime(now), Outcome: v1alpha1.HookInterventionAccepted,
	}
	handled.Message = intervention.FormatMessage(handled)
	if refusal != "" {
		handled.Outcome = v1alpha1.HookInterventionRefused
		handled.Message = executor.OneLine(fmt.Sprintf("%s refused: %s", request.Type, refusal))
	}
	run.Status.LastIntervention = handled
}

// retryNow begins the next attempt, or the next call of an open one. All retries are available again. A
// HookRun that has failed is opened again.
func retryNow(run *v1alpha1.HookRun, now time.Time) decision {
	run.Status.Failures = 0
	if openAttempt(run) != nil {
		run.Status.NextCallTimestamp = nil
		return decision{command: startCall}
	}
	run.Status.CompletionTimestamp, run.Status.Duration = nil, ""
	next := beginAttempt(run, now)
	run.Status.Message = executor.OneLine(fmt.Sprintf("%s. %s", run.Status.Message, run.Status.LastIntervention.Message))
	setInProgressConditions(run, v1alpha1.ReasonRunning, run.Status.Message)
	return next
}

// finishSkipped finishes a HookRun that a user skips.
func finishSkipped(run *v1alpha1.HookRun, now time.Time) decision {
	message := run.Status.LastIntervention.Message
	closeAttempt(run, v1alpha1.ReasonCancelled, message, now)
	return finishHookRun(run, v1alpha1.HookRunPhaseSkipped, v1alpha1.ReasonSkippedByUser, message, now)
}

// shouldHandleRequest reports whether a finished HookRun has an intervention to handle now. Leftovers
// are removed before: they have the ID of the attempt.
func (r *Reconciler) shouldHandleRequest(ctx context.Context, run *v1alpha1.HookRun) (bool, error) {
	if intervention.UnhandledRequest(run) == nil || run.Status.Removing || !run.DeletionTimestamp.IsZero() {
		return false, nil
	}
	_, err := readParent(ctx, r.Client, run)
	if isNotFoundOrReplaced(err) {
		return false, nil // it is released
	}
	return err == nil, err
}

// addFinalizerForRetry adds the finalizer to a finished HookRun that is about to be opened again: its parent
// removes it from finished HookRuns.
func (r *Reconciler) addFinalizerForRetry(ctx context.Context, run *v1alpha1.HookRun) error {
	request := intervention.UnhandledRequest(run)
	if run.Status.CompletionTimestamp == nil || request == nil || request.Type != v1alpha1.HookInterventionRetry ||
		intervention.RefusalReason(run, request.Type) != "" || controllerutil.ContainsFinalizer(run, v1alpha1.FinalizerHookRun) {
		return nil
	}
	patch := client.MergeFromWithOptions(run.DeepCopy(), client.MergeFromWithOptimisticLock{})
	controllerutil.AddFinalizer(run, v1alpha1.FinalizerHookRun)
	if err := r.Client.Patch(ctx, run, patch); err != nil {
		return fmt.Errorf("adding the finalizer of HookRun %s: %w", run.Name, err)
	}
	return nil
}

// emitIntervention emits events, on the HookRun and on its parent, when an intervention was handled.
func (r *Reconciler) emitIntervention(before, run *v1alpha1.HookRun) {
	last, was := run.Status.LastIntervention, before.Status.LastIntervention
	if last == nil || (was != nil && was.ID == last.ID) {
		return
	}
	level, reason := corev1.EventTypeNormal, v1alpha1.ReasonRetriedByUser
	switch {
	case last.Outcome == v1alpha1.HookInterventionRefused:
		level, reason = corev1.EventTypeWarning, v1alpha1.ReasonInterventionRefused
	case last.Type == v1alpha1.HookInterventionSkip:
		level, reason = corev1.EventTypeWarning, v1alpha1.ReasonSkippedByUser
	}
	if reason != v1alpha1.ReasonSkippedByUser { // emitEvent has one for the end of a skipped HookRun
		r.Recorder.Eventf(run, nil, level, reason, string(last.Type), "%s", last.Message)
	}
	r.Recorder.Eventf(newParentStub(run), run, level, reason, string(last.Type), "%s",
		executor.OneLine(fmt.Sprintf("%s action %s: %s", run.Spec.Hook, run.Spec.ActionName, last.Message)))
}
