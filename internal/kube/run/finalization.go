// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
)

// StepPostLog is the step that stores the log of the Post actions.
const StepPostLog = "postlog"

// NewFinalizeFunc returns the last phase. It has the log of the Post actions stored, which
// says whether there was one, waits for what is left beside them, and ends the
// work; named is told then, to write down what was stored where.
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
