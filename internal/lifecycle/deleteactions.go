// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// RunDeleteActions is the ReconcileFunc that runs the actions of a kind with a single hook point,
// one after the other. A failed action does not stop the following ones, and neither does a
// cancel request.
func (d *Driver[T]) RunDeleteActions(_ context.Context, s *Scope[T]) (bool, error) {
	if IsFinished(s.Object) {
		return true, nil
	}
	for _, run := range s.Pre {
		if isHookRunFinished(run) {
			continue
		}
		d.queue.acquireSlot(s.Object, true)
		if run.Spec.DesiredState == v1alpha1.HookDesiredStateWait {
			d.setDesiredState(s, run, v1alpha1.HookDesiredStateRun)
		}
		s.MarkRunning(d.Kind.RunningPre, "Running "+describeAction(run))
		return false, nil
	}
	return true, nil
}

// CancelPreActions cancels the actions before the work, and reports whether one is still
// running.
func (d *Driver[T]) CancelPreActions(s *Scope[T]) (busy bool) {
	for _, run := range s.Pre {
		if !isHookRunFinished(run) {
			d.setDesiredState(s, run, v1alpha1.HookDesiredStateCancel)
			busy = true
		}
	}
	return busy
}

// FailedActionMessages returns the last message of each action that did not complete, including
// those whose failures are ignored.
func FailedActionMessages(runs []*v1alpha1.HookRun) []string {
	var failed []string
	for _, run := range runs {
		if isHookRunFinished(run) && !isHookRunCompleted(run) {
			failed = append(failed, fmt.Sprintf("%s: %s", describeAction(run), run.Status.Message))
		}
	}
	return failed
}
