// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestOperationThrottle checks that runs are reconciled less often the more operations they have.
func TestOperationThrottle(t *testing.T) {
	t.Parallel()
	var p operationThrottle
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p.recordCheck("few", 10, now)
	p.recordCheck("many", 10_000, now)
	p.recordCheck("over", 10_000, now)
	p.forgetRun("over")
	for _, tc := range []struct {
		run             string
		progress, ended time.Duration
		// rest is how long nothing is checked half a second later, if something waits for the operations, and
		// if not.
		rest, unawaited time.Duration
	}{
		{"few", time.Second, 100 * time.Millisecond, 0, 500 * time.Millisecond},
		{"many", 5 * time.Second, 5 * time.Second, 4500 * time.Millisecond, 4500 * time.Millisecond},
		{"over", time.Second, 100 * time.Millisecond, 0, 0},
		{"an unknown run", time.Second, 100 * time.Millisecond, 0, 0},
	} {
		for awaited, want := range map[bool]time.Duration{true: tc.rest, false: tc.unawaited} {
			if rest := p.timeUntilNextCheck(types.UID(tc.run), awaited, now.Add(500*time.Millisecond)); rest != want {
				t.Errorf("%s (awaited: %t) is throttled for %s, want %s", tc.run, awaited, rest, want)
			}
		}
		if progress, ended := p.enqueueDelay(types.UID(tc.run), false), p.enqueueDelay(types.UID(tc.run), true); progress != tc.progress || ended != tc.ended {
			t.Errorf("%s: %s and %s, want %s and %s", tc.run, progress, ended, tc.progress, tc.ended)
		}
	}
}
