// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// StepPostLog is the step that stores the log of the Post actions.
const StepPostLog = "postlog"

// Finish returns the last phase. It has the log of the Post actions stored, which
// says whether there was one, waits for what is left beside them, and ends the
// work; named is told then, to write down what was stored where.
func (d *Driver[T]) Finish(storePostLog func(*Scope[T]) *Ended[bool], named func(ctx context.Context, s *Scope[T], postLog bool)) Phase[T] {
	return func(ctx context.Context, s *Scope[T]) (bool, error) {
		s.JudgePostActions()
		postLog := false
		if Started(s.Post) {
			what := fmt.Sprintf("storing the log of the %s actions", d.Kind.Post())
			s.Finishing(v1alpha1.ReasonStoringLogs, what)
			stored := storePostLog(s)
			if stored == nil || (stored.Err != nil && d.Repeat(s, StepPostLog, what, stored.Err)) {
				return false, nil
			}
			postLog = stored.Value
		}
		if s.Left {
			return false, nil
		}
		named(ctx, s, postLog)
		s.Done()
		s.Then(func(ctx context.Context) error { return d.LetGo(ctx, s.Object) })
		return true, nil
	}
}
