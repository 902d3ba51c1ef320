// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// When progress alone is worth a write.
const (
	// minFractionChange is the smallest change worth a write, as a fraction of the total.
	minFractionChange = fullFraction / 20
	// uncountedInterval is how long a change waits if there is no total, and maxUnwrittenAge how
	// long any change waits. Both count from the last poll before the last write.
	uncountedInterval, maxUnwrittenAge = 10 * time.Second, 30 * time.Second
)

// writeUrgency returns how urgently the status must be written.
func (mem *Memory) writeUrgency(op *v1alpha1.AsyncOperation, now time.Time) WriteUrgency {
	written, status := &mem.writtenStatus, &op.Status
	switch cancel := status.Cancel; {
	case op.Ended() && written.CompletionTimestamp == nil, !op.Ended() && !mem.isCancelRecorded(cancel),
		status.DataCapturedTimestamp != nil && written.DataCapturedTimestamp == nil: // an application may be frozen until then
		return RequiredWrite
	case op.Ended(), isRecentCancel(cancel, now):
		return NoWrite
	case written.Phase == "" && status.Phase == v1alpha1.AsyncOperationPhaseNew:
		if mem.hasPolled || now.Sub(mem.createdAt) >= transientDelay {
			return OptionalWrite
		}
		return NoWrite
	case written.Phase != status.Phase, mem.writtenReason != succeededReason(status), isWorthWriting(written, status, now):
		return OptionalWrite
	}
	return NoWrite
}

// isRecentCancel reports whether an operation has been canceled so recently that this is not worth a
// write. A time in the future is not recent: the clock was set back.
func isRecentCancel(cancel *v1alpha1.AsyncOperationCancel, now time.Time) bool {
	if cancel == nil {
		return false
	}
	age := now.Sub(cancel.RequestTimestamp.Time)
	return age >= 0 && age < transientDelay
}

// isCancelRecorded reports whether another operator would find that an operation must be canceled,
// so that Cancel may be called: a request is in its spec, or its Backup or Restore has ended; what a
// timeout decided must be in its status. It is true if there is nothing to cancel.
func (mem *Memory) isCancelRecorded(cancel *v1alpha1.AsyncOperationCancel) bool {
	return cancel == nil || cancel.Cause == v1alpha1.CancelCauseRequested || mem.writtenStatus.Cancel != nil
}

// isWorthWriting reports whether a change of the written status within a phase is worth a write.
func isWorthWriting(written, status *v1alpha1.AsyncOperationStatus, now time.Time) bool {
	if !equality.Semantic.DeepEqual(written.Cancel, status.Cancel) {
		return true
	}
	moved := progressFraction(status.Progress) - progressFraction(written.Progress)
	if moved >= minFractionChange || moved <= -minFractionChange {
		return true
	}
	var silent time.Duration
	if last := written.LastPollTimestamp; last != nil {
		silent = now.Sub(last.Time)
	}
	if silent >= uncountedInterval && hasUncountedProgress(written.Progress, status.Progress) {
		return true
	}
	if silent < maxUnwrittenAge {
		return false
	}
	// The time of the last poll is no change.
	same := *status
	same.LastPollTimestamp, same.Conditions = written.LastPollTimestamp, nil
	return !equality.Semantic.DeepEqual(written, &same)
}

func hasUncountedProgress(written, progress *v1alpha1.AsyncOperationProgress) bool {
	if progress == nil || progress.Total != 0 {
		return false
	}
	return written == nil || written.Completed != progress.Completed
}

func succeededReason(status *v1alpha1.AsyncOperationStatus) string {
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionSucceeded); c != nil {
		return c.Reason
	}
	return ""
}
