// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ratelimit says how long controllers that may owe clean-up wait before they
// reconcile an object again after an error.
package ratelimit

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// maxDelay bounds the wait: an application may be stopped until what failed succeeds. The
// default of client-go is a quarter of an hour, which a few minutes of errors of the API
// server are enough for.
const maxDelay = time.Minute

// New returns a limiter that waits for the first delay, twice as long after each further error
// of the same object, and a minute at most.
func New(first time.Duration) workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](first, maxDelay)
}
