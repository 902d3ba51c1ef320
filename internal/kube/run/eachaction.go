// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// EachAction is the phase of a kind with one point. It runs the actions one after the
// other, those behind one that failed as well, and whoever asks for an end.
func (d *Driver[T]) EachAction(_ context.Context, s *Scope[T]) (bool, error) {
	if Decided(s.Object) {
		return true, nil
	}
	for _, run := range s.Pre {
		if terminal(run) {
			continue
		}
		d.queue.acquire(s.Object, true)
		if run.Spec.DesiredState == v1alpha1.HookDesiredStateWait {
			d.want(s, run, v1alpha1.HookDesiredStateRun)
		}
		s.Running(d.Kind.runningEach(), "Running "+action(run))
		return false, nil
	}
	return true, nil
}

// FailedActions says of each action that did not end well what it said last, of those too
// whose failures are ignored.
func FailedActions(runs []*v1alpha1.HookRun) []string {
	var failed []string
	for _, run := range runs {
		if terminal(run) && !succeeded(run) {
			failed = append(failed, fmt.Sprintf("%s: %s", action(run), run.Status.Message))
		}
	}
	return failed
}
