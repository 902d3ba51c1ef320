// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
)

// StepPostLog is the step that uploads the log of the Post actions.
const StepPostLog = "postlog"

// AwaitPostActionLog reconciles what holds a finished run: it stores the log of its Post actions
// by the step StepPostLog that upload executes. It returns whether there is such a log, and
// whether the run owes nothing more.
func (d *Driver[T]) AwaitPostActionLog(s *Scope[T], upload func(*Scope[T]) *Result[bool]) (hasLog, ready bool) {
	s.SetPostActionsCondition()
	if HasStartedHookRun(s.Post) {
		uploaded := upload(s)
		if AwaitUploadStep(d, s, StepPostLog, fmt.Sprintf("storing the log of the %s actions", d.Kind.PostHookPoint), uploaded) {
			return false, false
		}
		hasLog = uploaded.Value
	}
	return hasLog, !s.CleanupPending
}

// Finalize records that nothing is owed, and then removes the finalizer.
func (d *Driver[T]) Finalize(s *Scope[T]) {
	s.MarkFinalized()
	s.AfterStatusUpdate(func(ctx context.Context) error { return d.RemoveFinalizer(ctx, s.Object) })
}
