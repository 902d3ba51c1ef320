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

// write writes the status in its turn, and says whether it did. Stored is what the cache
// has of it. What must be written and was not is to be looked at again after a time, or,
// if that is 0, when the watch brings something newer.
func (r *Reconciler) write(
	ctx context.Context, k *known, op *v1alpha1.AsyncOperation, stored v1alpha1.AsyncOperationStatus, urgency operation.Urgency,
) (written bool, after time.Duration, err error) {
	now := r.Now()
	if urgency == operation.May {
		if !r.writes.take(now) {
			return false, 0, nil
		}
	} else if wait := r.wait(k, now); wait > 0 {
		return false, wait, nil
	}
	k.turn = time.Time{}
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
	k.memory.Wrote(&op.Status)
	r.tell(ctx, k, op)
	return true, 0, nil
}

// wait returns how long a write has to wait for its turn, which it gets when it asks for
// the first time.
func (r *Reconciler) wait(k *known, now time.Time) time.Duration {
	if k.turn.IsZero() {
		k.turn = r.writes.reserve(now)
	}
	return k.turn.Sub(now)
}
