// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/operation"
)

// patchStatus writes the status if it is its turn, and reports whether it did. stored is the cached
// object. If a required write did not happen, the operation must be requeued after the returned
// time or, if that is 0, waits for the watch to deliver a newer object.
func (r *Reconciler) patchStatus(
	ctx context.Context, k *trackedOperation, op *v1alpha1.AsyncOperation, stored v1alpha1.AsyncOperationStatus, urgency operation.WriteUrgency,
) (written bool, after time.Duration, err error) {
	if op.ResourceVersion == k.replacedVersion {
		return false, 0, nil // the watch delivers the newer object
	}
	begun, after := r.acquireWriteSlot(k, urgency, r.Now())
	if !begun {
		return false, after, nil
	}
	defer func() { <-r.writeSlots }()
	// Decode the response into a copy: the API truncates times, which are more precise here.
	changed := op.DeepCopy()
	base := op.DeepCopy()
	base.Status = stored
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, changed, patch); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return false, 0, nil // the watch delivers the newer object
		}
		return false, 0, fmt.Errorf("writing the status of AsyncOperation %s: %w", op.Name, err)
	}
	k.replacedVersion = op.ResourceVersion
	k.memory.RecordWritten(&op.Status)
	r.emitStatusChange(ctx, k, op)
	return true, 0, nil
}

// minWriteRequeue is how long a required write waits at least if too many are in flight.
const minWriteRequeue = 100 * time.Millisecond

// acquireWriteSlot reports whether a status may be written now, and otherwise when to retry; 0
// leaves it to a later change. A write that may begin holds a slot in r.writeSlots.
func (r *Reconciler) acquireWriteSlot(k *trackedOperation, urgency operation.WriteUrgency, now time.Time) (begun bool, after time.Duration) {
	if urgency == operation.OptionalWrite {
		if !r.optionalWrites.AllowN(now, 1) {
			return false, 0
		}
	} else if wait := r.timeUntilWrite(k, now); wait > 0 {
		return false, wait
	}
	k.writeTime = time.Time{}
	select {
	case r.writeSlots <- struct{}{}:
		return true, 0
	default:
	}
	if urgency == operation.OptionalWrite {
		return false, 0
	}
	// Queue again, so that few writes try at a time, however many wait.
	return false, max(r.timeUntilWrite(k, now), minWriteRequeue)
}

// timeUntilWrite returns how long a write must wait for its turn. The first call reserves the
// turn.
func (r *Reconciler) timeUntilWrite(k *trackedOperation, now time.Time) time.Duration {
	if k.writeTime.IsZero() {
		k.writeTime = now.Add(r.requiredWrites.ReserveN(now, 1).DelayFrom(now))
	}
	return k.writeTime.Sub(now)
}
