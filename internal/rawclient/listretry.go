// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// maxAttempts is how often one page is requested before its kind fails.
const maxAttempts = MaxAttempts

// maxSyntaxAttempts is how often a page is requested that arrives completely and is not
// valid JSON.
const maxSyntaxAttempts = 2

// doWithRetry calls attempt until it succeeds, fails permanently, or has failed too often.
func (c *Lister) doWithRetry(ctx context.Context, attempt func() error) error {
	for n := 1; ; n++ {
		err := attempt()
		if err == nil || ctx.Err() != nil {
			return err
		}
		delay, again := listRetryDelay(err, n)
		if !again {
			return err
		}
		if sleepErr := c.opts.Sleep(ctx, delay); sleepErr != nil {
			return err
		}
	}
}

// listRetryDelay reports whether to retry, and when, after the n-th failure in a row.
func listRetryDelay(err error, n int) (time.Duration, bool) {
	var handler *handlerError
	var refused *RefusedError
	switch {
	case n >= maxAttempts, errors.As(err, &handler), errors.As(err, &refused):
		return 0, false
	case errors.Is(err, errNotList), errors.Is(err, errMissingName):
		return 0, false
	case errors.Is(err, errSyntax):
		// A proxy may have sent the response, but an object that breaks the list does not change.
		// A truncated body is another error.
		return BackoffDelay(n), n < maxSyntaxAttempts
	}
	return RetryDelay(err, n)
}

// IsObjectFailure reports whether the error of a LIST may be caused by one of its objects. A LIST
// without that object may then succeed. Either the response of the API server cannot be
// read, or the API server failed, as it does when it cannot decode or convert an object.
func IsObjectFailure(err error) bool {
	return errors.Is(err, errSyntax) || errors.Is(err, errNotList) || apierrors.IsInternalError(err)
}
