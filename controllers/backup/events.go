// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

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
func (r *Reconciler) event(ctx context.Context, b *v1alpha1.Backup, level, reason, action, message string) {
	log.FromContext(ctx).Info(message, "phase", b.Status.Phase, "reason", reason)
	if len(message) > maxNote {
		message = strings.ToValidUTF8(message[:maxNote], "") + "…"
	}
	r.Recorder.Eventf(b, nil, level, reason, action, "%s", message)
}

// tell emits an event for everything a status write changed that a person would
// want to know.
func (r *Reconciler) tell(ctx context.Context, before, b *v1alpha1.Backup) {
	if !planned(before) && planned(b) {
		r.event(ctx, b, corev1.EventTypeNormal, v1alpha1.ReasonPlanRecorded, "Plan", conditions.Get(b, v1alpha1.ConditionPlanned).Message)
		// Of events that differ only in their notes, the recorder keeps the first.
		if warnings := b.Status.PlanWarnings; len(warnings) > 0 {
			r.event(ctx, b, corev1.EventTypeWarning, "PlanWarning", "Plan", strings.Join(warnings, "; "))
		}
	}
	if reason, was := reasonOf(b), reasonOf(before); reason != was {
		switch reason {
		case v1alpha1.ReasonQueued, v1alpha1.ReasonWaitingForLocation, v1alpha1.ReasonWaitingForPlugins:
			r.event(ctx, b, corev1.EventTypeNormal, reason, "Wait", b.Status.Message)
		case v1alpha1.ReasonArchiving:
			r.event(ctx, b, corev1.EventTypeNormal, reason, "Archive", "Archiving objects")
		}
	}
	if !decided(before) && decided(b) {
		r.tellOutcome(ctx, b)
	}
	r.tellCondition(ctx, before, b, v1alpha1.ConditionCleanupOwed, "CleanUp", metav1.ConditionFalse)
	r.tellCondition(ctx, before, b, v1alpha1.ConditionPostActionsSucceeded, "PostBackup", metav1.ConditionTrue)
}

func reasonOf(b *v1alpha1.Backup) string {
	if c := conditions.Get(b, v1alpha1.ConditionSucceeded); c != nil {
		return c.Reason
	}
	return ""
}

func (r *Reconciler) tellOutcome(ctx context.Context, b *v1alpha1.Backup) {
	level := corev1.EventTypeWarning
	if b.Status.Phase == v1alpha1.BackupPhaseCompleted {
		level = corev1.EventTypeNormal
	}
	action := "Backup"
	if len(b.Status.ValidationErrors) > 0 {
		action = "Validate"
	}
	r.event(ctx, b, level, reasonOf(b), action, outcomeMessage(b))
}

// tellCondition tells of a condition whose reason changed.
func (r *Reconciler) tellCondition(ctx context.Context, before, b *v1alpha1.Backup, conditionType, action string, good metav1.ConditionStatus) {
	c, was := conditions.Get(b, conditionType), conditions.Get(before, conditionType)
	if c == nil || (was != nil && was.Reason == c.Reason) || c.Reason == v1alpha1.ReasonCleanupPending {
		return
	}
	level := corev1.EventTypeWarning
	if c.Status == good && c.Reason != v1alpha1.ReasonCleanupAbandoned {
		level = corev1.EventTypeNormal
	}
	r.event(ctx, b, level, c.Reason, action, c.Message)
}
