// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/text"
)

// awaitOperations waits for the operations, and records whether they have captured the data of the
// claims.
func (r *Reconciler) awaitOperations(ctx context.Context, s *scope) (bool, error) {
	done, err := r.driver.AwaitOperations(ctx, s)
	if !lifecycle.IsFinished(s.Object) {
		recordDataCaptured(s)
	}
	return done, err
}

// recordDataCaptured records how many claims have their data in the backup. There is nothing to
// record without claims.
func recordDataCaptured(s *scope) {
	counts := s.Object.Status.Volumes
	if counts == nil {
		return
	}
	if s.Operations != nil {
		counts.Captured = countCapturedClaims(s.Operations)
	}
	operations := s.Object.Status.Operations
	capturing := operations != nil && operations.Capturing > 0
	missing := counts.Claims - counts.Captured
	claims := text.Pluralize(int64(counts.Claims), "PersistentVolumeClaim")
	switch {
	case capturing:
		conditions.Set(s.Object, v1alpha1.ConditionDataCaptured, metav1.ConditionUnknown, v1alpha1.ReasonCapturing,
			fmt.Sprintf("The data of %d of %s is captured so far", counts.Captured, claims))
	case missing > 0:
		conditions.Set(s.Object, v1alpha1.ConditionDataCaptured, metav1.ConditionFalse, v1alpha1.ReasonDataNotCaptured,
			fmt.Sprintf("The data of %d of %s is not in this backup: status.problems names them, with the reason", missing, claims))
	default:
		conditions.Set(s.Object, v1alpha1.ConditionDataCaptured, metav1.ConditionTrue, v1alpha1.ReasonDataCaptured,
			fmt.Sprintf("The data of %s is captured", claims))
	}
}

// countCapturedClaims returns how many claims have an operation that has captured their data, and has
// not failed since.
func countCapturedClaims(operations []v1alpha1.AsyncOperation) int32 {
	captured := map[v1alpha1.OperationItem]bool{}
	for i := range operations {
		o := &operations[i]
		if o.Spec.Item.Group != "" || o.Spec.Item.Resource != "persistentvolumeclaims" || o.Status.DataCapturedTimestamp == nil {
			continue
		}
		if !o.Ended() || o.Status.Phase == v1alpha1.AsyncOperationPhaseCompleted {
			captured[o.Spec.Item] = true
		}
	}
	return int32(len(captured)) //nolint:gosec // as many objects fit into no cluster
}

// forgetDataCaptured removes what was recorded about captured data: there is no backup that has it.
func forgetDataCaptured(b *v1alpha1.Backup) {
	b.Status.Volumes = nil
	meta.RemoveStatusCondition(&b.Status.Conditions, v1alpha1.ConditionDataCaptured)
}
