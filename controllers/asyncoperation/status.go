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
	"github.com/grapnel-dev/grapnel/internal/kube/operation"
)

// patchStatus writes the status in its turn, and says whether it did. Stored is what the cache
// has of it. What must be written and was not is to be looked at again after a time, or,
// if that is 0, when the watch brings something newer.
func (r *Reconciler) patchStatus(
	ctx context.Context, k *trackedOperation, op *v1alpha1.AsyncOperation, stored v1alpha1.AsyncOperationStatus, urgency operation.WriteUrgency,
) (written bool, after time.Duration, err error) {
	begun, after := r.acquireWriteSlot(k, urgency, r.Now())
	if !begun {
		return false, after, nil
	}
	defer func() { <-r.writeSlots }()
	// The answer is read into a copy: the API keeps less of times than is known here.
	changed := op.DeepCopy()
	base := op.DeepCopy()
	base.Status = stored
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, changed, patch); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return false, 0, nil // the watch brings what was newer
		}
		return false, 0, fmt.Errorf("writing the status of AsyncOperation %s: %w", op.Name, err)
	}
	k.memory.RecordWritten(&op.Status)
	r.emitStatusChange(k, op)
	return true, 0, nil
}

// minWriteRequeue is how long a write that must be waits at least if too many go on.
const minWriteRequeue = 100 * time.Millisecond

// acquireWriteSlot says whether a status may be written now, and otherwise when to try again; 0
// leaves it to a later change. A write that has begun holds a place in r.writing.
func (r *Reconciler) acquireWriteSlot(k *trackedOperation, urgency operation.WriteUrgency, now time.Time) (begun bool, after time.Duration) {
	if urgency == operation.OptionalWrite {
		if !r.writeBucket.takeToken(now) {
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
	// It queues up again: however many wait, few of them try at a time.
	return false, max(r.timeUntilWrite(k, now), minWriteRequeue)
}

// timeUntilWrite returns how long a write has to wait for its turn, which it gets when it asks for
// the first time.
func (r *Reconciler) timeUntilWrite(k *trackedOperation, now time.Time) time.Duration {
	if k.writeTime.IsZero() {
		k.writeTime = r.writeBucket.reserveToken(now)
	}
	return k.writeTime.Sub(now)
}
