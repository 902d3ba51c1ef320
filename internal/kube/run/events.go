// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
)

// maxNote is what an event may say.
const maxNote = 1000

// event tells people, in an event and in the operator's log.
func (d *Driver[T]) event(ctx context.Context, o T, level, reason, action, message string) {
	log.FromContext(ctx).Info(message, "phase", o.GetPhase(), "reason", reason)
	d.Recorder.Eventf(o, nil, level, reason, action, "%s", Note(message))
}

// Note cuts a message to what an event may say.
func Note(message string) string {
	if len(message) <= maxNote {
		return message
	}
	return strings.ToValidUTF8(message[:maxNote], "") + "…"
}

// tell emits an event for everything a status write changed that a person would
// want to know.
func (d *Driver[T]) tell(ctx context.Context, before, o T) {
	if !Planned(before) && Planned(o) {
		d.event(ctx, o, corev1.EventTypeNormal, v1alpha1.ReasonPlanRecorded, "Plan", conditions.Get(o, v1alpha1.ConditionPlanned).Message)
		// Of events that differ only in their notes, the recorder keeps the first.
		if warnings := o.Run().PlanWarnings; len(warnings) > 0 {
			d.event(ctx, o, corev1.EventTypeWarning, "PlanWarning", "Plan", strings.Join(warnings, "; "))
		}
	}
	if reason, was := reasonOf(o), reasonOf(before); reason != was {
		switch reason {
		case v1alpha1.ReasonQueued, v1alpha1.ReasonWaitingForLocation, v1alpha1.ReasonWaitingForPlugins, v1alpha1.ReasonWaitingForOperations:
			d.event(ctx, o, corev1.EventTypeNormal, reason, "Wait", o.Run().Message)
		case d.Kind.Work:
			d.event(ctx, o, corev1.EventTypeNormal, reason, reason, reason+" objects")
		}
	}
	if !Decided(before) && Decided(o) {
		d.tellOutcome(ctx, o)
	}
	d.tellCondition(ctx, before, o, v1alpha1.ConditionCleanupOwed, "CleanUp", metav1.ConditionFalse)
	d.tellCondition(ctx, before, o, v1alpha1.ConditionPostActionsSucceeded, string(d.Kind.Post()), metav1.ConditionTrue)
}

func reasonOf(o conditions.Object) string {
	if c := conditions.Get(o, v1alpha1.ConditionSucceeded); c != nil {
		return c.Reason
	}
	return ""
}

func (d *Driver[T]) tellOutcome(ctx context.Context, o T) {
	level := corev1.EventTypeWarning
	if o.GetPhase() == PhaseCompleted {
		level = corev1.EventTypeNormal
	}
	action := d.Kind.Name
	if len(o.Run().ValidationErrors) > 0 {
		action = "Validate"
	}
	d.event(ctx, o, level, reasonOf(o), action, OutcomeMessage(o))
}

// tellCondition tells of a condition whose reason changed.
func (d *Driver[T]) tellCondition(ctx context.Context, before, o T, conditionType, action string, good metav1.ConditionStatus) {
	c, was := conditions.Get(o, conditionType), conditions.Get(before, conditionType)
	if c == nil || (was != nil && was.Reason == c.Reason) || c.Reason == v1alpha1.ReasonCleanupPending {
		return
	}
	level := corev1.EventTypeWarning
	if c.Status == good && c.Reason != v1alpha1.ReasonCleanupAbandoned {
		level = corev1.EventTypeNormal
	}
	d.event(ctx, o, level, c.Reason, action, c.Message)
}
