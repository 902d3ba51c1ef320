// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backoff_test

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/grapnel-dev/grapnel/internal/backoff"
)

func TestNew(t *testing.T) {
	limiter, object := backoff.NewRateLimiter(5*time.Millisecond), reconcile.Request{}
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
