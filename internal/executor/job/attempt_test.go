// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// retry returns the next attempt after that of call.
func retry() executor.Call {
	next := call()
	next.Attempt++
	return next
}

// TestExecute_JobPerAttempt leaves the Job of a failed attempt behind, because it could not be
// deleted.
func TestExecute_JobPerAttempt(t *testing.T) {
	for name, tc := range map[string]struct {
		end func(w *world)
	}{
		"it ended": {func(w *world) { w.become(w.job(), exited(3, "the disk is full")) }},
		"it runs":  {func(*world) { time.Sleep(10 * time.Minute) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				x := w.run()
				first := w.job()
				w.pod(first, running())
				w.refuse(func(verb string, _ any) error {
					if verb == "delete" {
						return errConnection
					}
					return nil
				})
				tc.end(w)
				<-x.done
				if x.err == nil || w.there(first.Name) == nil {
					t.Fatalf("it returned %+v, %v; want a failure that leaves its Job", x.answer, x.err)
				}
				w.refuse(nil)
				x = w.execute(t.Context(), w.options(), retry())
				if len(w.created) != 2 {
					t.Fatalf("%d Jobs were created, want another one for the retry; it follows that of the attempt before it", len(w.created))
				}
				w.pod(w.created[1], exited(0, "frozen"))
				<-x.done
				if x.err != nil || x.answer.Message != "frozen" {
					t.Errorf("the retry returned %+v, %v", x.answer, x.err)
				}
				w.recorded(retry())
			})
		})
	}
}

// TestExecute_LaterAttemptRunning continues an operator that has not noticed that another one took
// over.
func TestExecute_LaterAttemptRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		later := w.execute(t.Context(), w.options(), retry())
		w.pod(w.job(), running())
		x := w.run()
		x.fails(t, executor.Unreachable, "a later attempt has already begun")
		later.goesOn(t)
		w.become(w.job(), exited(0, "frozen"))
		<-later.done
		if later.err != nil {
			t.Error(later.err)
		}
		w.recorded(retry())
	})
}
