// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// maxUnitSums is the limit of the API for the number of sums.
const maxUnitSums = 8

// Summarize adds up the operations of a Backup or Restore and describes their progress:
// "3 of 5 operations done, 61 %, 1 failed", or "" if there are none. The caller
// omits operations that a later attempt started again.
//
// All operations have the same weight. A finished operation counts as done, whatever its outcome.
// If there are more units than a status may hold, the first by name are added up. Operations
// without units are not added up.
func Summarize(ops []v1alpha1.AsyncOperation) (counts v1alpha1.OperationCounts, sentence string) {
	if len(ops) == 0 {
		return counts, ""
	}
	var done int64
	sums := map[string]v1alpha1.OperationSum{}
	for i := range ops {
		status := &ops[i].Status
		countPhase(&counts, status.Phase)
		if status.DataCapturedTimestamp == nil && !IsFinishedPhase(status.Phase) {
			counts.Capturing++
		}
		if IsFinishedPhase(status.Phase) {
			done += fullFraction
		} else {
			done += progressFraction(status.Progress)
		}
		if p := status.Progress; p != nil && p.Units != "" {
			sum := sums[p.Units]
			sums[p.Units] = v1alpha1.OperationSum{
				Units: p.Units, Completed: addSaturating(sum.Completed, p.Completed), Total: addSaturating(sum.Total, p.Total),
			}
		}
	}
	counts.Percent = int32(done * 100 / fullFraction / int64(len(ops))) //nolint:gosec // 100 at most
	counts.Sums = slices.SortedFunc(maps.Values(sums), func(a, b v1alpha1.OperationSum) int { return cmp.Compare(a.Units, b.Units) })
	counts.Sums = slices.Clip(counts.Sums[:min(maxUnitSums, len(counts.Sums))])
	return counts, countsMessage(&counts)
}

// IsFinishedPhase reports whether an operation in this phase has finished.
func IsFinishedPhase(phase v1alpha1.AsyncOperationPhase) bool {
	switch phase {
	case v1alpha1.AsyncOperationPhaseCompleted, v1alpha1.AsyncOperationPhaseFailed, v1alpha1.AsyncOperationPhaseCancelled:
		return true
	default:
		return false
	}
}

func countPhase(counts *v1alpha1.OperationCounts, phase v1alpha1.AsyncOperationPhase) {
	counts.Attempted++
	switch phase {
	case v1alpha1.AsyncOperationPhaseCompleted:
		counts.Completed++
	case v1alpha1.AsyncOperationPhaseFailed:
		counts.Failed++
	case v1alpha1.AsyncOperationPhaseCancelled:
		counts.Cancelled++
	default:
	}
}

// addSaturating adds numbers of plugins, which may be arbitrarily large.
func addSaturating(a, b int64) int64 {
	if b = max(b, 0); a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func countsMessage(counts *v1alpha1.OperationCounts) string {
	operations := "operations"
	if counts.Attempted == 1 {
		operations = "operation"
	}
	text := fmt.Sprintf("%d of %d %s done, %d %%",
		counts.Completed+counts.Failed+counts.Cancelled, counts.Attempted, operations, counts.Percent)
	if counts.Failed > 0 {
		text += fmt.Sprintf(", %d failed", counts.Failed)
	}
	if counts.Cancelled > 0 {
		text += fmt.Sprintf(", %d canceled", counts.Cancelled)
	}
	return text
}
