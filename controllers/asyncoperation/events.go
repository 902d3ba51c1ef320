// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/executor"
)

// succeededReason returns the reason of the condition Succeeded of an operation.
func succeededReason(op *v1alpha1.AsyncOperation) string {
	if c := conditions.Get(op, v1alpha1.ConditionSucceeded); c != nil {
		return c.Reason
	}
	return ""
}

// emitStatusChange logs a line if a written status has a new phase or reason, emits an event if the
// operation did not complete or the operator cancels it, and counts and traces finished operations.
func (r *Reconciler) emitStatusChange(ctx context.Context, k *trackedOperation, op *v1alpha1.AsyncOperation) {
	phase, reason := op.Status.Phase, succeededReason(op)
	if phase == k.emittedPhase && reason == k.emittedReason {
		return
	}
	// A Backup may have thousands of operations. Events of all of them would hide those of its problems,
	// and the recorder keeps each event in memory for minutes; the status has start, progress and outcome.
	isOverdue := phase == v1alpha1.AsyncOperationPhaseCancelling && op.Status.Cancel.Cause != v1alpha1.CancelCauseRequested
	isUnsuccessful := op.Ended() && phase != v1alpha1.AsyncOperationPhaseCompleted
	hasNews := phase != k.emittedPhase && (isOverdue || isUnsuccessful)
	k.emittedPhase, k.emittedReason = phase, reason
	r.operationLogger(k.name).Info(op.Status.Message, "action", k.action, "item", op.Spec.Item.Name, "for", k.parentRef.Name,
		"phase", phase, "reason", reason)
	if op.Ended() {
		r.Metrics.recordFinished(op, reason)
		r.Tracer.ExportOperation(ctx, op, reason)
	}
	if !hasNews {
		return
	}
	related := &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: k.parentRef.Kind, Namespace: op.Namespace, Name: k.parentRef.Name,
		UID: types.UID(k.parentRef.UID),
	}
	r.Recorder.Eventf(op, related, eventTypeForPhase(phase), reason, string(k.kind), "%s", executor.OneLine(op.Status.Message))
}

func eventTypeForPhase(phase v1alpha1.AsyncOperationPhase) string {
	if phase == v1alpha1.AsyncOperationPhaseFailed {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}
