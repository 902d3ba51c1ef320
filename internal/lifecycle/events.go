// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/text"
)

// maxEventNoteBytes is the limit of events.k8s.io/v1 for the note of an event.
const maxEventNoteBytes = 1024

// emitEvent publishes an event, and logs its message.
func (d *Driver[T]) emitEvent(ctx context.Context, o T, level, reason, action, message string) {
	log.FromContext(ctx).Info(message, "phase", o.GetPhase(), "reason", reason)
	d.Recorder.Eventf(o, nil, level, reason, action, "%s", TruncateEventNote(message))
}

// TruncateEventNote truncates a message to the maximum length of an event note.
func TruncateEventNote(message string) string {
	return text.Truncate(message, maxEventNoteBytes)
}

// emitEvents publishes an event for each change of the status that is relevant to a user.
func (d *Driver[T]) emitEvents(ctx context.Context, before, o T) {
	if !IsPlanned(before) && IsPlanned(o) {
		if plan := conditions.Get(o, v1alpha1.ConditionPlanned).Message; plan != nothingPlanned {
			d.emitEvent(ctx, o, corev1.EventTypeNormal, v1alpha1.ReasonPlanRecorded, "Plan", plan)
		}
		// The recorder drops events that differ only in their notes, so there is one for all
		// warnings.
		if warnings := o.Run().PlanWarnings; len(warnings) > 0 {
			d.emitEvent(ctx, o, corev1.EventTypeWarning, v1alpha1.ReasonPlanWarning, "Plan", strings.Join(warnings, "; "))
		}
	}
	if reason, was := succeededReason(o), succeededReason(before); reason != was {
		d.emitProgress(ctx, o, reason)
	}
	if !IsFinished(before) && IsFinished(o) {
		d.emitOutcome(ctx, o)
	}
	d.emitConditionChange(ctx, before, o, v1alpha1.ConditionResultsStored, "Store", metav1.ConditionTrue)
	d.emitConditionChange(ctx, before, o, v1alpha1.ConditionCleanupOwed, "CleanUp", metav1.ConditionFalse)
	d.emitConditionChange(ctx, before, o, v1alpha1.ConditionPostActionsSucceeded, string(d.Kind.PostHookPoint), metav1.ConditionTrue)
}

// emitProgress publishes an event about a reason of the condition Succeeded that has just begun.
func (d *Driver[T]) emitProgress(ctx context.Context, o T, reason string) {
	if !d.Kind.HasProgressEvents && (reason == v1alpha1.ReasonQueued || reason == d.Kind.WorkReason) {
		return
	}
	switch reason {
	case v1alpha1.ReasonQueued, v1alpha1.ReasonWaitingForLocation, v1alpha1.ReasonWaitingForPlugins, v1alpha1.ReasonWaitingForOperations:
		d.emitEvent(ctx, o, corev1.EventTypeNormal, reason, "Wait", o.Run().Message)
	case d.Kind.WorkReason:
		d.emitEvent(ctx, o, corev1.EventTypeNormal, reason, reason, reason+" objects")
	}
}

func succeededReason(o conditions.Object) string {
	if c := conditions.Get(o, v1alpha1.ConditionSucceeded); c != nil {
		return c.Reason
	}
	return ""
}

func (d *Driver[T]) emitOutcome(ctx context.Context, o T) {
	level := corev1.EventTypeWarning
	if o.GetPhase() == v1alpha1.RunPhaseCompleted && !HasProblem(o.Run(), results.ReasonEmpty) {
		level = corev1.EventTypeNormal
	}
	action := d.Kind.Name
	if len(o.Run().ValidationErrors) > 0 {
		action = "Validate"
	}
	d.emitEvent(ctx, o, level, succeededReason(o), action, OutcomeMessage(o))
}

// emitConditionChange publishes an event for a condition whose reason changed.
func (d *Driver[T]) emitConditionChange(ctx context.Context, before, o T, conditionType, action string, good metav1.ConditionStatus) {
	c, was := conditions.Get(o, conditionType), conditions.Get(before, conditionType)
	if c == nil || (was != nil && was.Reason == c.Reason) || c.Reason == v1alpha1.ReasonCleanupPending {
		return
	}
	level := corev1.EventTypeWarning
	if c.Status == good && c.Reason != v1alpha1.ReasonCleanupAbandoned {
		level = corev1.EventTypeNormal
	}
	d.emitEvent(ctx, o, level, c.Reason, action, c.Message)
}
