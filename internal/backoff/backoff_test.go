// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backoff_test

import (
	"math"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/grapnel-dev/grapnel/internal/backoff"
)

func TestDelay(t *testing.T) {
	t.Parallel()
	doubling := wait.Backoff{Duration: time.Second, Factor: 2, Cap: time.Minute}
	for name, tc := range map[string]struct {
		backoff  wait.Backoff
		failures int
		want     time.Duration
	}{
		"a negative number of failures":  {backoff: doubling, failures: -1},
		"no failure":                     {backoff: doubling},
		"one failure":                    {backoff: doubling, failures: 1, want: time.Second},
		"two failures":                   {backoff: doubling, failures: 2, want: 2 * time.Second},
		"the last failure below the cap": {backoff: doubling, failures: 6, want: 32 * time.Second},
		"the first failure at the cap":   {backoff: doubling, failures: 7, want: time.Minute},
		"more failures than bits":        {backoff: doubling, failures: 65, want: time.Minute},
		"failures forever":               {backoff: doubling, failures: math.MaxInt, want: time.Minute},
		"as long as the cap from the start": {
			backoff: wait.Backoff{Duration: time.Hour, Factor: 2, Cap: time.Hour}, failures: 3, want: time.Hour,
		},
		"Steps are ignored": {
			backoff: wait.Backoff{Duration: time.Second, Factor: 2, Cap: time.Minute, Steps: 2}, failures: 4, want: 8 * time.Second,
		},
		"without a cap": {backoff: wait.Backoff{Duration: time.Second, Factor: 4}, failures: 3, want: 16 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := backoff.Delay(tc.backoff, tc.failures); got != tc.want {
				t.Errorf("Delay returns %s, want %s", got, tc.want)
			}
		})
	}
}

func TestNewRateLimiter(t *testing.T) {
	t.Parallel()
	limiter, object := backoff.NewRateLimiter[string](5*time.Millisecond), "backup-1"
	if got := limiter.When(object); got != 5*time.Millisecond {
		t.Errorf("the first wait is %s, want 5ms", got)
	}
	last := time.Duration(0)
	for range 100 {
		last = limiter.When(object)
	}
	if last != time.Minute {
		t.Errorf("the last wait is %s, want a minute", last)
	}
}
