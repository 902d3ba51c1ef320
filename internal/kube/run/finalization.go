// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
)

// StepPostLog is the step that uploads the log of the Post actions.
const StepPostLog = "postlog"

// NewFinalizeFunc returns the last phase. It calls storePostLog to upload the log of the Post
// actions, waits for remaining clean-up, and finalizes the run. The result of storePostLog says
// whether there was a log. NewFinalizeFunc passes it to named, which records where the files are
// stored.
func (d *Driver[T]) NewFinalizeFunc(storePostLog func(*Scope[T]) *Result[bool], named func(ctx context.Context, s *Scope[T], postLog bool)) ReconcileFunc[T] {
	return func(ctx context.Context, s *Scope[T]) (bool, error) {
		s.SetPostActionsCondition()
		postLog := false
		if HasStartedHookRun(s.Post) {
			stored := storePostLog(s)
			if AwaitUploadStep(d, s, StepPostLog, fmt.Sprintf("storing the log of the %s actions", d.Kind.PostHookPoint()), stored) {
				return false, nil
			}
			postLog = stored.Value
		}
		if s.CleanupPending {
			return false, nil
		}
		named(ctx, s, postLog)
		s.MarkFinalized()
		s.AfterStatusUpdate(func(ctx context.Context) error { return d.RemoveFinalizer(ctx, s.Object) })
		return true, nil
	}
}
