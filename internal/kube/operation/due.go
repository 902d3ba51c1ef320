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
	// notable is the part of the total by which it has to move.
	notable = whole / 20
	// uncounted is how long it waits where there is no total, and overdue how long any
	// change waits. Both count from the last question before the last write.
	uncounted, overdue = 10 * time.Second, 30 * time.Second
)

// due says whether the status is worth a write.
func (mem *Memory) due(op *v1alpha1.AsyncOperation, now time.Time) Urgency {
	written, status := &mem.written, &op.Status
	switch {
	case op.Ended() && written.CompletionTimestamp == nil, (written.Cancel == nil) != (status.Cancel == nil):
		return Must
	case op.Ended():
		return Keep
	case written.Phase == "" && status.Phase == v1alpha1.AsyncOperationPhaseNew:
		if mem.polled || now.Sub(mem.born) >= showNew {
			return May
		}
		return Keep
	case written.Phase != status.Phase:
		return Must
	case mem.reason != reasonOf(status), worth(written, status, now):
		return May
	}
	return Keep
}

// worth says whether a change within a phase is worth a write, of what written has.
func worth(written, status *v1alpha1.AsyncOperationStatus, now time.Time) bool {
	if !equality.Semantic.DeepEqual(written.Cancel, status.Cancel) {
		return true
	}
	moved := fraction(status.Progress) - fraction(written.Progress)
	if moved >= notable || moved <= -notable {
		return true
	}
	var silent time.Duration
	if last := written.LastPollTimestamp; last != nil {
		silent = now.Sub(last.Time)
	}
	if silent >= uncounted && uncountedMoved(written.Progress, status.Progress) {
		return true
	}
	if silent < overdue {
		return false
	}
	// That a question was asked is no change.
	same := *status
	same.LastPollTimestamp, same.Conditions = written.LastPollTimestamp, nil
	return !equality.Semantic.DeepEqual(written, &same)
}

func uncountedMoved(written, progress *v1alpha1.AsyncOperationProgress) bool {
	if progress == nil || progress.Total != 0 {
		return false
	}
	return written == nil || written.Completed != progress.Completed
}

func reasonOf(status *v1alpha1.AsyncOperationStatus) string {
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionSucceeded); c != nil {
		return c.Reason
	}
	return ""
}
