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
		rest            time.Duration // a second later
	}{
		{"few", time.Second, 100 * time.Millisecond, 0},
		{"many", 5 * time.Second, 5 * time.Second, 4 * time.Second},
		{"over", time.Second, 100 * time.Millisecond, 0},
		{"an unknown run", time.Second, 100 * time.Millisecond, 0},
	} {
		if rest := p.timeUntilNextCheck(types.UID(tc.run), now.Add(time.Second)); rest != tc.rest {
			t.Errorf("%s is throttled for %s, want %s", tc.run, rest, tc.rest)
		}
		if progress, ended := p.enqueueDelay(types.UID(tc.run), false), p.enqueueDelay(types.UID(tc.run), true); progress != tc.progress || ended != tc.ended {
			t.Errorf("%s: %s and %s, want %s and %s", tc.run, progress, ended, tc.progress, tc.ended)
		}
	}
}
