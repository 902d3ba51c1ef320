// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package list

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const (
	// maxAttempts is how often one page is asked for before its kind fails.
	// With the back-off below that is about 13 seconds.
	maxAttempts = 7
	firstDelay  = 200 * time.Millisecond
	maxDelay    = 5 * time.Second
	// maxRetryAfter caps what a server may ask for.
	maxRetryAfter = 30 * time.Second
)

// retry calls attempt until it succeeds, fails for good, or failed too often.
func (c *Client) retry(ctx context.Context, attempt func() error) error {
	for n := 1; ; n++ {
		err := attempt()
		if err == nil || ctx.Err() != nil || n == maxAttempts {
			return err
		}
		delay, again := retryDelay(err, n)
		if !again {
			return err
		}
		if sleepErr := c.opts.Sleep(ctx, delay); sleepErr != nil {
			return err
		}
	}
}

// retryDelay says whether asking again may help, and when, after the n-th
// failure in a row.
func retryDelay(err error, n int) (time.Duration, bool) {
	delay := min(firstDelay<<(n-1), maxDelay)
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
	return delay, transient(err)
}

// transient reports whether err is one of a connection, and not of what was
// sent over it.
func transient(err error) bool {
	var handler *handlerError
	var syntax *jsontext.SyntacticError
	switch {
	case errors.As(err, &handler), errors.Is(err, errTooLarge):
		return false
	case errors.Is(err, errNotList), errors.Is(err, errNameless):
		return false
	case errors.Is(err, context.Canceled):
		return false
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.As(err, &syntax):
		return true // a body that was cut off
	}
	return utilnet.IsConnectionReset(err) || utilnet.IsConnectionRefused(err) ||
		utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsProbableEOF(err) || isNetError(err)
}

// isNetError reports whether err came from the network at all.
func isNetError(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout)
}
