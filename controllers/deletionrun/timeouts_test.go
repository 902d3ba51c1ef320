// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletionrun

import (
	"testing"

	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// TestStepTimeouts checks that no step holds its slot until the deadline of the run.
// TestRetryForever_HungStore (internal/lifecycle) covers what happens to a step that hangs.
func TestStepTimeouts(t *testing.T) {
	t.Parallel()
	timeouts, deadline := stepTimeouts(), lifecycle.Limits{}.WithDefaults().RunTimeout
	for _, step := range stepNames() {
		if timeout := timeouts[step]; timeout <= 0 || timeout > deadline/2 {
			t.Errorf("step %s may take %s; want a timeout that leaves time for a retry before %s", step, timeout, deadline)
		}
	}
}
