// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backoff says how long Grapnel waits before it tries again.
package backoff

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
)

// Delay returns the delay after so many failures in a row: 0 without a failure, b.Duration after
// the first one, and b.Factor times as long after each further one, up to b.Cap. It ignores
// b.Steps, so that a caller needs to remember only the number of failures. A b without a Cap is
// for a limited number of failures.
func Delay(b wait.Backoff, failures int) time.Duration {
	if failures < 1 {
		return 0
	}
	for b.Steps = failures; b.Steps > 1; {
		b.Step() // at the Cap, it sets Steps to 0
	}
	return b.Step()
}

// maxDelay limits the back-off, because an application may stay stopped until the retry succeeds.
// The default limit of client-go is about 15 minutes, which is reached after a few minutes of API
// server errors.
const maxDelay = time.Minute

// NewRateLimiter returns a limiter for controllers that may owe clean-up. It waits for the first
// delay, twice as long after each further error of the same object, and at most a minute.
func NewRateLimiter[T comparable](first time.Duration) workqueue.TypedRateLimiter[T] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[T](first, maxDelay)
}
