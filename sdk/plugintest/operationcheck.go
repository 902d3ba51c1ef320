// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// unknownOperation is the ID of an operation that no action started.
const unknownOperation = "plugintest-unknown"

// unknownOperationProblems calls Progress and Cancel for an operation that was never
// started.
func unknownOperationProblems(ctx context.Context, target operationTarget) []string {
	var problems []string
	_, progressErr := target.getOperationProgress(ctx, unknownOperation)
	cancelErr := target.cancelOperation(ctx, unknownOperation)
	for what, err := range map[string]error{"Progress": progressErr, "Cancel": cancelErr} {
		if status.Code(err) == codes.Aborted {
			problems = append(problems, fmt.Sprintf("%s: %v", what, err))
		}
	}
	if _, ok := target.(asyncTarget); !ok {
		return problems
	}
	if !errors.Is(progressErr, item.ErrUnknownOperation) {
		problems = append(problems, fmt.Sprintf("Progress of an operation that was never started returned the error %v, "+
			"which does not match item.ErrUnknownOperation", progressErr))
	}
	// There is no operation that has to be canceled.
	if cancelErr != nil && !errors.Is(cancelErr, item.ErrUnknownOperation) {
		problems = append(problems, fmt.Sprintf("Cancel of an operation that was never started returned the error %v, "+
			"which does not match item.ErrUnknownOperation", cancelErr))
	}
	return problems
}

// operationProblems calls Progress for a started operation, cancels it, and returns what
// the operator would not accept.
func operationProblems(ctx context.Context, target operationTarget, id string) []string {
	if n := len(id); n > item.MaxOperationIDBytes {
		return []string{fmt.Sprintf("the ID of the operation has %d bytes, at most %d are allowed", n, item.MaxOperationIDBytes)}
	}
	var problems []string
	var before *item.Progress
	failed := false
	asks := func(when string) {
		if failed {
			return // the check would fail again
		}
		now, found := progressProblems(ctx, target, id, before, when)
		problems, before, failed = append(problems, found...), now, now == nil
	}
	asks("at first")
	if _, ok := target.(asyncTarget); !ok {
		return append(problems, cancelProblems(ctx, target, id, "Cancel")...)
	}
	asks("on the second call")
	problems = append(problems, cancelProblems(ctx, target, id, "Cancel")...)
	asks("after Cancel")
	problems = append(problems, cancelProblems(ctx, target, id, "A second Cancel")...)
	// Each call reports the same fault.
	return slices.Compact(slices.Sorted(slices.Values(problems)))
}

func cancelProblems(ctx context.Context, target operationTarget, id, what string) []string {
	if err := target.cancelOperation(ctx, id); err != nil {
		return []string{fmt.Sprintf("%s of an operation that was started failed: %v", what, err)}
	}
	return nil
}

// progressProblems calls Progress. before is the earlier progress, nil if there is none;
// when describes the time of the call.
func progressProblems(
	ctx context.Context, target operationTarget, id string, before *item.Progress, when string,
) (*item.Progress, []string) {
	progress, err := target.getOperationProgress(ctx, id)
	if err != nil {
		return nil, []string{fmt.Sprintf("Progress of an operation that was started failed %s: %v", when, err)}
	}
	if _, ok := target.(asyncTarget); !ok || progress.Completed {
		return progress, nil
	}
	var problems []string
	if progress.Err != "" {
		problems = append(problems, fmt.Sprintf("Progress has the error %q and is not completed: a failed operation must be completed", progress.Err))
	}
	if progress.Cancelled {
		problems = append(problems, "Progress is cancelled and not completed: set Cancelled only when the operation has ended")
	}
	if before != nil && before.Completed {
		problems = append(problems, fmt.Sprintf("Progress of an operation that was completed is not completed %s: it must stay completed", when))
	}
	if before != nil && before.DataCaptured && !progress.DataCaptured {
		problems = append(problems, fmt.Sprintf("Progress of an operation that had captured its data does not have DataCaptured %s: it must stay true", when))
	}
	return progress, problems
}
