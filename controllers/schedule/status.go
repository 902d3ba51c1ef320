// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/schedule"
	"github.com/grapnel-dev/grapnel/internal/text"
)

// parseAndValidate parses the expression of a Schedule, and returns all problems of the Schedule. It
// does not check what the API server checks: the API server knows the rules of a spec, but not those
// of the labels in it.
func parseAndValidate(s *v1alpha1.Schedule) (schedule.Cron, error) {
	cron, err := schedule.Parse(s.Spec.Schedule, s.Spec.TimeZone)
	labels, annotations := templateMetadata(s)
	path := field.NewPath("spec", "template", "metadata")
	problems := append(metav1validation.ValidateLabels(labels, path.Child("labels")),
		apivalidation.ValidateAnnotations(annotations, path.Child("annotations"))...)
	return cron, errors.Join(err, problems.ToAggregate())
}

// newDecisionInput returns the input of the decision.
func (p *reconcileScope) newDecisionInput(cron schedule.Cron) schedule.Input {
	spec, status := &p.s.Spec, &p.original.Status
	in := schedule.Input{
		Name: p.s.Name, Now: p.now, Cron: cron,
		Suspended: spec.Suspend, WasSuspended: status.ObservedSuspend, SkipImmediately: spec.SkipImmediately,
		ConcurrencyPolicy: schedule.ConcurrencyPolicy(cmp.Or(spec.ConcurrencyPolicy, v1alpha1.ConcurrencyPolicyForbid)),
		Created:           p.s.CreationTimestamp.Time,
		LastSchedule:      fromStatusTime(status.LastScheduleTime), LastSkipped: fromStatusTime(status.SettledTime),
		RunRequest: p.pendingRunRequest(), LastRunRequest: p.lastRunRequest(),
		Runs:          p.observed.runs,
		KeepSucceeded: spec.KeepSucceeded, KeepFailed: spec.KeepFailed, KeepLast: 1,
	}
	if spec.StartingDeadline != nil {
		in.StartingDeadline = spec.StartingDeadline.Duration
	}
	if spec.KeepLast != nil {
		in.KeepLast = *spec.KeepLast
	}
	if status.ObservedSchedule != "" && (status.ObservedSchedule != spec.Schedule || status.ObservedTimeZone != spec.TimeZone) {
		in.LastSkipped = p.now // the earlier times of the new expression do not count
	}
	return in
}

// recordInvalidSpec records what must be changed.
func (p *reconcileScope) recordInvalidSpec(ctx context.Context, problem error) error {
	status := &p.s.Status
	if status.ObservedSchedule == "" {
		// The fixed expression will be a new one, and has no times before that.
		status.ObservedSchedule, status.ObservedTimeZone = p.s.Spec.Schedule, p.s.Spec.TimeZone
	}
	status.NextScheduleTime = nil
	if request := p.pendingRunRequest(); request != "" {
		p.decision.RunRequest = &schedule.HandledRequest{
			Value: request, Reason: v1alpha1.ReasonFailedValidation,
			Message: "the Schedule is invalid; fix it, and request a run again: " + problem.Error(),
		}
	}
	p.recordRunRequest()
	p.updateBackupCounts()
	p.setPhaseAndConditions(v1alpha1.SchedulePhaseFailedValidation, conditions.Stalled, v1alpha1.ReasonFailedValidation, problem.Error())
	written, err := p.patchStatus(ctx)
	if err != nil || !written {
		return err
	}
	was := conditions.Get(p.original, v1alpha1.ConditionStalled)
	if was == nil || was.Status != metav1.ConditionTrue || was.Message != status.Message {
		p.emitEvent(ctx, nil, corev1.EventTypeWarning, v1alpha1.ReasonFailedValidation, "Validate", status.Message)
	}
	p.emitRunRequestEvent(ctx)
	return nil
}

// setStatusFromDecision records the decision and its execution in the status.
func (p *reconcileScope) setStatusFromDecision() {
	status, spec, d := &p.s.Status, &p.s.Spec, &p.decision
	status.ObservedSchedule, status.ObservedTimeZone, status.ObservedSuspend = spec.Schedule, spec.TimeZone, spec.Suspend
	if p.createError == nil {
		if !d.LastSchedule.Equal(fromStatusTime(status.LastScheduleTime)) {
			status.LastBackup = p.backupNameAt(d.LastSchedule)
		}
		status.LastScheduleTime = toStatusTime(d.LastSchedule)
		p.recordRunRequest()
	}
	status.SettledTime, status.NextScheduleTime = toStatusTime(d.LastSkipped), toStatusTime(d.NextScheduleTime)
	if spec.Suspend {
		status.NextScheduleTime = nil
	}
	for _, skip := range d.Skipped {
		if skip.Reason != schedule.ReasonTooManyMissed { // one of these is made up for
			status.LastSkippedTime, status.LastSkippedReason = toStatusTime(skip.Time), string(skip.Reason)
		}
	}
	p.updateBackupCounts()
	p.summarizeStatus()
}

// pendingRunRequest returns the request for a manual run that is not handled yet; empty if there is none.
func (p *reconcileScope) pendingRunRequest() string {
	request := text.Truncate(p.s.Annotations[v1alpha1.AnnotationRunRequestedAt], v1alpha1.MaxRunRequestLength)
	if request == p.original.Status.LastHandledRunRequest {
		return ""
	}
	return request
}

// lastRunRequest returns the time of the last request that was handled; zero if it was none.
func (p *reconcileScope) lastRunRequest() time.Time {
	at, err := time.Parse(time.RFC3339, p.original.Status.LastHandledRunRequest)
	if err != nil {
		return time.Time{}
	}
	return at
}

// recordRunRequest records a request for a manual run that is handled.
func (p *reconcileScope) recordRunRequest() {
	status, request := &p.s.Status, p.decision.RunRequest
	if request == nil {
		return
	}
	status.LastHandledRunRequest, status.LastRequestedBackup = request.Value, request.RunName
	status.LastRunRequestMessage = executor.OneLine(request.Message)
	if request.Message == "" {
		status.LastBackup = request.RunName
	}
}

// updateBackupCounts records counts and times of the Backups.
func (p *reconcileScope) updateBackupCounts() {
	status := &p.s.Status
	status.Active = 0
	for _, made := range p.observed.runs {
		switch {
		case made.State == schedule.Active:
			status.Active++
		case made.State == schedule.Succeeded && made.Completed.After(fromStatusTime(status.LastSuccessfulTime)):
			status.LastSuccessfulTime = toStatusTime(made.Completed)
		}
	}
}

// summarizeStatus sets the phase and the message.
func (p *reconcileScope) summarizeStatus() {
	if p.createError != nil {
		phase := v1alpha1.SchedulePhaseEnabled
		if p.s.Spec.Suspend {
			phase = v1alpha1.SchedulePhaseSuspended // the Backup was requested manually
		}
		p.setPhaseAndConditions(phase, conditions.StalledRetrying, v1alpha1.ReasonBackupNotCreated,
			p.createError.Error()+"; the operator retries, correct spec.template if it is the cause")
		return
	}
	if p.s.Spec.Suspend {
		p.setPhaseAndConditions(v1alpha1.SchedulePhaseSuspended, conditions.Current, v1alpha1.ReasonSuspended,
			"Suspended: no Backups are created; set spec.suspend to false to resume")
		return
	}
	message := "The next Backup is due at " + p.decision.NextScheduleTime.Format(time.RFC3339)
	waits := func(skip schedule.Skip) bool { return skip.Reason == schedule.ReasonConcurrencyForbid }
	if i := slices.IndexFunc(p.decision.Skipped, waits); i >= 0 {
		message += "; " + p.decision.Skipped[i].Message
	}
	p.setPhaseAndConditions(v1alpha1.SchedulePhaseEnabled, conditions.Current, v1alpha1.ReasonScheduled, message)
}

func (p *reconcileScope) setPhaseAndConditions(phase v1alpha1.SchedulePhase, state conditions.State, reason, message string) {
	message = executor.OneLine(message)
	p.s.Status.Phase, p.s.Status.Message = phase, message
	conditions.SetSummary(p.s, state, reason, message)
}

// backupNameAt returns the name of the Backup for a time, even if the Backup no longer exists.
func (p *reconcileScope) backupNameAt(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	for _, made := range p.observed.runs {
		if made.Request == "" && made.Scheduled.Equal(t) {
			return made.Name
		}
	}
	return schedule.RunName(p.s.Name, t)
}

// patchStatus writes the status, if it changed. It returns false if the Schedule was changed or
// removed in the meantime: the watch delivers the newer object.
func (p *reconcileScope) patchStatus(ctx context.Context) (written bool, err error) {
	if equality.Semantic.DeepEqual(&p.original.Status, &p.s.Status) {
		return true, nil
	}
	patch := client.MergeFromWithOptions(p.original, client.MergeFromWithOptimisticLock{})
	err = p.r.Client.Status().Patch(ctx, p.s, patch)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("writing the status of Schedule %s: %w", p.s.Name, err)
	}
	return true, nil
}

// fromStatusTime returns a time of a status; zero if it is not set.
func fromStatusTime(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// toStatusTime returns a time for a status; nil if it is zero.
func toStatusTime(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.Truncate(time.Second)}
}
