// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
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

// emitStatusChange emits an event and logs a line if a written status has a new phase or reason,
// and counts finished operations.
func (r *Reconciler) emitStatusChange(k *trackedOperation, op *v1alpha1.AsyncOperation) {
	phase, reason := op.Status.Phase, succeededReason(op)
	if phase == k.emittedPhase && reason == k.emittedReason {
		return
	}
	began := phase == v1alpha1.AsyncOperationPhaseInProgress && k.emittedPhase != phase
	// There may be thousands of them, and the event of the outcome says why it was canceled.
	requested := phase == v1alpha1.AsyncOperationPhaseCancelling && op.Status.Cancel.Cause == v1alpha1.CancelCauseRequested
	news := phase != k.emittedPhase && phase != v1alpha1.AsyncOperationPhaseNew && !requested
	k.emittedPhase, k.emittedReason = phase, reason
	r.operationLogger(k.name).Info(op.Status.Message, "action", k.action, "item", op.Spec.Item.Name, "for", k.parentRef.Name,
		"phase", phase, "reason", reason)
	if op.Ended() {
		r.Metrics.recordFinished(op, reason)
	}
	if !news {
		return // the status shows that a plugin is unreachable, while that is the case
	}
	if began {
		reason = v1alpha1.ReasonStarted
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
