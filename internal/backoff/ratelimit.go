// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backoff is the back-off after errors for controllers that may owe
// clean-up.
package backoff

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// maxDelay limits the back-off, because an application may stay stopped until the retry succeeds.
// The default limit of client-go is about 15 minutes, which is reached after a few minutes of API
// server errors.
const maxDelay = time.Minute

// NewRateLimiter returns a limiter that waits for the first delay, twice as long after each further error
// of the same object, and at most a minute.
func NewRateLimiter(first time.Duration) workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](first, maxDelay)
}
