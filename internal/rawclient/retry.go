// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/grapnel-dev/grapnel/internal/backoff"
)

const (
	// MaxAttempts is how often a request is sent before it fails. With the
	// back-off below that is about 13 seconds.
	MaxAttempts = 7
	// maxRetryAfter limits the Retry-After of a server.
	maxRetryAfter = 30 * time.Second
)

// Sleep waits for d, or until ctx is done, and then returns the error of ctx. Tests
// replace it.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// BackoffDelay is the back-off before the attempt that follows the n-th failure in a
// row.
func BackoffDelay(n int) time.Duration {
	return backoff.Delay(wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Cap: 5 * time.Second}, n)
}

// RetryDelay reports whether to send a request again, and when, after the n-th failure in a row.
func RetryDelay(err error, n int) (time.Duration, bool) {
	delay := BackoffDelay(n)
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		code := int(status.Status().Code)
		if code != http.StatusTooManyRequests && code < http.StatusInternalServerError {
			return 0, false
		}
		if code == http.StatusNotImplemented {
			return 0, false
		}
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			delay = max(delay, min(time.Duration(seconds)*time.Second, maxRetryAfter))
		}
		return delay, true
	}
	return delay, IsConnectionError(err)
}

// IsConnectionError reports whether err is an error of the connection rather than a response. It is
// then unknown whether the API server executed the request.
func IsConnectionError(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return false
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return true
	}
	return utilnet.IsConnectionReset(err) || utilnet.IsConnectionRefused(err) ||
		utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsProbableEOF(err) || isNetworkError(err)
}

// isNetworkError reports whether err came from the network at all.
func isNetworkError(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout)
}
