// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

import (
	"testing"
	"time"
)

func TestBackoffDelay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		failures int
		want     time.Duration
	}{
		"first":                        {failures: 1, want: 200 * time.Millisecond},
		"second":                       {failures: 2, want: 400 * time.Millisecond},
		"below the limit":              {failures: 5, want: 3200 * time.Millisecond},
		"at the limit":                 {failures: 6, want: 5 * time.Second},
		"three minutes of failures":    {failures: 40, want: 5 * time.Second},
		"thousands of failures so far": {failures: 10_000, want: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := BackoffDelay(tc.failures); got != tc.want {
				t.Errorf("BackoffDelay(%d) returns %s, want %s", tc.failures, got, tc.want)
			}
		})
	}
}
