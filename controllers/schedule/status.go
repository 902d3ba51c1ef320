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
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
	"github.com/grapnel-dev/grapnel/internal/schedule"
)

// valid reads the expression of a Schedule, and returns everything that is wrong with the
// Schedule. What the API server checks is not looked at: it knows the rules of a spec, not
// those of labels within it.
func valid(s *v1alpha1.Schedule) (schedule.Cron, error) {
	cron, err := schedule.Parse(s.Spec.Schedule, s.Spec.TimeZone)
	labels, annotations := templateMetadata(s)
	path := field.NewPath("spec", "template", "metadata")
	problems := append(metav1validation.ValidateLabels(labels, path.Child("labels")),
		apivalidation.ValidateAnnotations(annotations, path.Child("annotations"))...)
	return cron, errors.Join(err, problems.ToAggregate())
}

// input returns what is decided on.
func (p *pass) input(cron schedule.Cron) schedule.Input {
	spec, status := &p.s.Spec, &p.before.Status
	in := schedule.Input{
		Name: p.s.Name, Now: p.now, Cron: cron,
		Paused: spec.Paused, WasPaused: status.ObservedPaused, SkipImmediately: spec.SkipImmediately,
		Concurrency:  schedule.Concurrency(cmp.Or(spec.ConcurrencyPolicy, v1alpha1.ConcurrencyPolicyForbid)),
		Created:      p.s.CreationTimestamp.Time,
		LastSchedule: timeOf(status.LastScheduleTime), LastSkipped: timeOf(status.SettledTime),
		Runs:          p.seen.runs,
		KeepSucceeded: spec.KeepSucceeded, KeepFailed: spec.KeepFailed, KeepLast: 1,
	}
	if spec.StartingDeadline != nil {
		in.StartingDeadline = spec.StartingDeadline.Duration
	}
	if spec.KeepLast != nil {
		in.KeepLast = *spec.KeepLast
	}
	if status.ObservedSchedule != "" && (status.ObservedSchedule != spec.Schedule || status.ObservedTimeZone != spec.TimeZone) {
		in.LastSkipped = p.now // nobody meant the times that the new expression had before
	}
	return in
}

// refuse records what must be changed.
func (p *pass) refuse(ctx context.Context, problem error) error {
	status := &p.s.Status
	if status.ObservedSchedule == "" {
		// What is written instead is another expression, and has no times before that.
		status.ObservedSchedule, status.ObservedTimeZone = p.s.Spec.Schedule, p.s.Spec.TimeZone
	}
	status.NextScheduleTime = nil
	p.count()
	p.summarize(v1alpha1.SchedulePhaseFailedValidation, conditions.Stalled, v1alpha1.ReasonFailedValidation, problem.Error())
	written, err := p.write(ctx)
	if err != nil || !written {
		return err
	}
	was := conditions.Get(p.before, v1alpha1.ConditionStalled)
	if was == nil || was.Status != metav1.ConditionTrue || was.Message != status.Message {
		p.event(ctx, nil, corev1.EventTypeWarning, v1alpha1.ReasonFailedValidation, "Validate", status.Message)
	}
	return nil
}

// record puts what was decided and done into the status.
func (p *pass) record() {
	status, spec, d := &p.s.Status, &p.s.Spec, &p.decision
	status.ObservedSchedule, status.ObservedTimeZone, status.ObservedPaused = spec.Schedule, spec.TimeZone, spec.Paused
	if p.problem == nil {
		if !d.LastSchedule.Equal(timeOf(status.LastScheduleTime)) {
			status.LastBackup = p.backupAt(d.LastSchedule)
		}
		status.LastScheduleTime = stamp(d.LastSchedule)
	}
	status.SettledTime, status.NextScheduleTime = stamp(d.LastSkipped), stamp(d.NextWake)
	if spec.Paused {
		status.NextScheduleTime = nil
	}
	for _, skip := range d.Skipped {
		if skip.Reason != schedule.ReasonTooManyMissed { // of these one is made up for
			status.LastSkippedTime, status.LastSkippedReason = stamp(skip.Time), string(skip.Reason)
		}
	}
	p.count()
	p.conclude()
}

// count records what the Backups are like.
func (p *pass) count() {
	status := &p.s.Status
	status.Active = 0
	for _, made := range p.seen.runs {
		switch {
		case made.Class == schedule.Open:
			status.Active++
		case made.Class == schedule.Succeeded && made.Completed.After(timeOf(status.LastSuccessfulTime)):
			status.LastSuccessfulTime = stamp(made.Completed)
		}
	}
}

// conclude says in one word and one sentence how the Schedule stands.
func (p *pass) conclude() {
	if p.problem != nil {
		p.summarize(v1alpha1.SchedulePhaseEnabled, conditions.StalledRetrying, v1alpha1.ReasonBackupNotCreated,
			p.problem.Error()+"; it is tried again, correct spec.template if that is the cause")
		return
	}
	if p.s.Spec.Paused {
		p.summarize(v1alpha1.SchedulePhasePaused, conditions.Current, v1alpha1.ReasonPaused,
			"Paused: no Backups are created; set spec.paused to false to go on")
		return
	}
	message := "The next Backup is due at " + p.decision.NextWake.Format(time.RFC3339)
	waits := func(skip schedule.Skip) bool { return skip.Reason == schedule.ReasonConcurrencyForbid }
	if i := slices.IndexFunc(p.decision.Skipped, waits); i >= 0 {
		message += "; " + p.decision.Skipped[i].Message
	}
	p.summarize(v1alpha1.SchedulePhaseEnabled, conditions.Current, v1alpha1.ReasonScheduled, message)
}

func (p *pass) summarize(phase v1alpha1.SchedulePhase, state conditions.State, reason, message string) {
	message = executor.OneLine(message)
	p.s.Status.Phase, p.s.Status.Message = phase, message
	conditions.Summary(p.s, state, reason, message)
}

// backupAt returns the name of the Backup for a time, also if it is gone.
func (p *pass) backupAt(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	for _, made := range p.seen.runs {
		if made.Scheduled.Equal(t) {
			return made.Name
		}
	}
	return schedule.RunName(p.s.Name, t)
}

// write writes the status, if it changed. It returns false if somebody changed the Schedule
// in the meantime, or removed it: the watch brings what there is then.
func (p *pass) write(ctx context.Context) (written bool, err error) {
	if equality.Semantic.DeepEqual(&p.before.Status, &p.s.Status) {
		return true, nil
	}
	patch := client.MergeFromWithOptions(p.before, client.MergeFromWithOptimisticLock{})
	err = p.r.Client.Status().Patch(ctx, p.s, patch)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("writing the status of Schedule %s: %w", p.s.Name, err)
	}
	return true, nil
}

// timeOf returns a time of a status; zero if it is not set.
func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// stamp returns a time for a status; nil if it is zero.
func stamp(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.Truncate(time.Second)}
}
