// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// TestExecute_UnrecordedAnswer stops an operator after it got an answer and before it recorded it: the next
// one gets the same answer, and nothing is started again.
func TestExecute_UnrecordedAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		kind   executor.ErrorKind
		text   string
	}{
		"it did well": {exited(0, "thawed"), "", "thawed"},
		"it failed":   {exited(3, "the disk is full"), executor.Failed, "PreBackupAction(example.io/freeze): ended with exit code 3: the disk is full"},
		"it was evicted": {
			corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory"},
			executor.Unreachable,
			"PreBackupAction(example.io/freeze): its pod was evicted before it answered: low on memory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				x := w.run()
				w.pod(w.job(), tc.status)
				for range 3 {
					<-x.done
					text := x.answer.Message
					if x.err != nil {
						text = x.err.Error()
					}
					if executor.ErrorKindOf(x.err) != tc.kind || text != tc.text || len(w.created) != 1 {
						t.Errorf("it returned %q, %v after %d starts, want %q of one", x.answer.Message, x.err, len(w.created), tc.text)
					}
					x = w.run()
				}
				<-x.done
				w.recorded(call())
			})
		})
	}
}
