// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletionrun

import (
	"testing"

	"github.com/grapnel-dev/grapnel/internal/kube/run"
)

// TestStepTimeouts: no step may hold its slot until the deadline of the run. TestRetryForever_HungStore
// (internal/kube/run) shows what becomes of one that hangs.
func TestStepTimeouts(t *testing.T) {
	t.Parallel()
	timeouts, deadline := stepTimeouts(), run.Limits{}.WithDefaults().RunTimeout
	for _, step := range stepNames() {
		if timeout := timeouts[step]; timeout <= 0 || timeout > deadline/2 {
			t.Errorf("step %s may take %s; want a timeout that leaves time to try again before %s", step, timeout, deadline)
		}
	}
}
