// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storagelocation

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// minFreePercent is the share of a location that should be free.
const minFreePercent = 5

// availableMessage is the message for a location without a problem.
const availableMessage = "The location can be used"

// setStatusFromCheck sets the status from the result of a check.
func (r *Reconciler) setStatusFromCheck(bsl *v1alpha1.BackupStorageLocation, problem error, found checkResult) {
	available := func(is metav1.ConditionStatus, reason, message string) {
		conditions.Set(bsl, v1alpha1.ConditionAvailable, is, reason, message)
	}
	writable := func(is metav1.ConditionStatus, reason, message string) {
		conditions.Set(bsl, v1alpha1.ConditionWritable, is, reason, message)
	}
	switch {
	case problem != nil:
		reason := v1alpha1.ReasonUnavailable
		if errors.Is(problem, location.ErrInvalidSpec) {
			reason = v1alpha1.ReasonInvalidSpec
		}
		message := executor.OneLine(r.Redactor.String(problem.Error()))
		bsl.Status.Phase, bsl.Status.Message = v1alpha1.LocationPhaseUnavailable, message
		available(metav1.ConditionFalse, reason, message)
		writable(metav1.ConditionFalse, reason, message)
		conditions.SetSummary(bsl, conditions.StalledRetrying, reason, message)
	case found.fullError != nil:
		message := executor.OneLine("The location is full: delete backups, or make it larger; existing backups can be restored and deleted (" +
			r.Redactor.String(found.fullError.Error()) + ")")
		bsl.Status.Phase, bsl.Status.Message = v1alpha1.LocationPhaseFull, message
		available(metav1.ConditionTrue, v1alpha1.ReasonAvailable, "Existing backups can be read and deleted")
		writable(metav1.ConditionFalse, v1alpha1.ReasonFull, message)
		conditions.SetSummary(bsl, conditions.StalledRetrying, v1alpha1.ReasonFull, message)
	default:
		bsl.Status.Phase, bsl.Status.Message = v1alpha1.LocationPhaseAvailable, ""
		available(metav1.ConditionTrue, v1alpha1.ReasonAvailable, availableMessage)
		conditions.SetSummary(bsl, conditions.Current, v1alpha1.ReasonAvailable, availableMessage)
		switch {
		case bsl.Spec.AccessMode == v1alpha1.AccessModeReadOnly:
			writable(metav1.ConditionFalse, v1alpha1.ReasonReadOnly, "spec.accessMode of the location is ReadOnly")
		case isAlmostFull(found.space):
			writable(metav1.ConditionTrue, v1alpha1.ReasonAlmostFull, fmt.Sprintf(
				"Less than %d%% of the location is free: %s of %s; delete backups, or make it larger",
				minFreePercent, formatSize(found.space.Free), formatSize(found.space.Total)))
		default:
			writable(metav1.ConditionTrue, v1alpha1.ReasonWritable, "New backups can be stored in the location")
		}
	}
}

// writableReason returns the reason of the condition Writable; "" if there is none.
func writableReason(bsl *v1alpha1.BackupStorageLocation) string {
	if writable := conditions.Get(bsl, v1alpha1.ConditionWritable); writable != nil {
		return writable.Reason
	}
	return ""
}

// isAlmostFull reports whether little space is left. Unknown space counts as enough.
func isAlmostFull(s objectstore.Space) bool {
	return s.Total > 0 && s.Free < s.Total/100*minFreePercent
}

// formatSize formats a size for people, coarse enough not to change with every check.
func formatSize(size uint64) string {
	const mib, gib = 1 << 20, 1 << 30
	if size < 10*gib {
		return fmt.Sprintf("%d MiB", size/mib)
	}
	return fmt.Sprintf("%d GiB", size/gib)
}
