// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/operation"
)

// stands returns an operation with this progress.
func stands(phase v1alpha1.AsyncOperationPhase, completed, total int64, units string) v1alpha1.AsyncOperation {
	return v1alpha1.AsyncOperation{Status: v1alpha1.AsyncOperationStatus{
		Phase: phase, Progress: &v1alpha1.AsyncOperationProgress{Completed: completed, Total: total, Units: units},
	}}
}

// captured returns an operation that has captured its data.
func captured(o v1alpha1.AsyncOperation) v1alpha1.AsyncOperation {
	o.Status.DataCapturedTimestamp = &v1alpha1.MicroTime{}
	return o
}

func TestSummarize(t *testing.T) {
	t.Parallel()
	const (
		inProgress = v1alpha1.AsyncOperationPhaseInProgress
		completed  = v1alpha1.AsyncOperationPhaseCompleted
		failed     = v1alpha1.AsyncOperationPhaseFailed
		cancelled  = v1alpha1.AsyncOperationPhaseCancelled
		cancelling = v1alpha1.AsyncOperationPhaseCancelling
	)
	type (
		ops    = []v1alpha1.AsyncOperation
		counts = v1alpha1.OperationCounts
		sums   = []v1alpha1.OperationSum
	)
	var many ops
	var manySums sums
	for i := range 12 {
		many = append(many, stands(completed, 1, 1, fmt.Sprintf("unit %02d", 11-i)))
		if i < 8 {
			manySums = append(manySums, v1alpha1.OperationSum{Units: fmt.Sprintf("unit %02d", i), Completed: 1, Total: 1})
		}
	}
	for name, tc := range map[string]struct {
		ops      ops
		want     counts
		sentence string
	}{
		"none": {},
		"no progress reported": {
			ops: make(ops, 1), want: counts{Attempted: 1, Capturing: 1}, sentence: "0 of 1 operation done, 0 %",
		},
		"in progress": {
			ops: ops{
				stands(completed, 7, 0, ""), stands(completed, 0, 0, ""), stands(completed, 10, 10, "bytes"),
				stands(inProgress, 5, 100, "bytes"), captured(stands(inProgress, 3, 0, "objects")),
			},
			want: counts{Attempted: 5, Completed: 3, Capturing: 1, Percent: 61, Sums: sums{
				{Units: "bytes", Completed: 15, Total: 110}, {Units: "objects", Completed: 3},
			}},
			sentence: "3 of 5 operations done, 61 %",
		},
		"some failed or canceled": {
			ops:      ops{stands(completed, 0, 0, ""), stands(failed, 1, 10, ""), stands(cancelled, 1, 10, ""), stands(cancelling, 1, 2, "")},
			want:     counts{Attempted: 4, Completed: 1, Failed: 1, Cancelled: 1, Capturing: 1, Percent: 87},
			sentence: "3 of 4 operations done, 87 %, 1 failed, 1 canceled",
		},
		"all ended": {
			ops:      ops{stands(failed, 0, 0, ""), stands(failed, 1, 3, "")},
			want:     counts{Attempted: 2, Failed: 2, Percent: 100},
			sentence: "2 of 2 operations done, 100 %, 2 failed",
		},
		"implausible numbers": {
			ops: ops{
				stands(inProgress, math.MaxInt64, 1, "bytes"), stands(inProgress, math.MaxInt64, math.MaxInt64, "bytes"),
				stands(inProgress, -5, 10, "bytes"), stands(inProgress, 5, -10, "bytes"),
			},
			want:     counts{Attempted: 4, Capturing: 4, Percent: 50, Sums: sums{{Units: "bytes", Completed: math.MaxInt64, Total: math.MaxInt64}}},
			sentence: "0 of 4 operations done, 50 %",
		},
		"large numbers": {
			ops: ops{stands(inProgress, math.MaxInt64/4, math.MaxInt64, "bytes")},
			want: counts{Attempted: 1, Capturing: 1, Percent: 24, Sums: sums{
				{Units: "bytes", Completed: math.MaxInt64 / 4, Total: math.MaxInt64},
			}},
			sentence: "0 of 1 operation done, 24 %",
		},
		"more units than fit": {
			ops: many, want: counts{Attempted: 12, Completed: 12, Percent: 100, Sums: manySums},
			sentence: "12 of 12 operations done, 100 %",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, sentence := operation.Summarize(tc.ops)
			if diff := cmp.Diff(tc.want, got); diff != "" || sentence != tc.sentence {
				t.Errorf("sentence %q, want %q; counts (-want +got):\n%s", sentence, tc.sentence, diff)
			}
		})
	}
}
