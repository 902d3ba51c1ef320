// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package list

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/grapnel-dev/grapnel/internal/kube/request"
)

// maxAttempts is how often one page is asked for before its kind fails.
const maxAttempts = request.MaxAttempts

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
	var handler *handlerError
	var syntax *jsontext.SyntacticError
	switch {
	case errors.As(err, &handler), errors.Is(err, errTooLarge):
		return 0, false
	case errors.Is(err, errNotList), errors.Is(err, errNameless):
		return 0, false
	case errors.As(err, &syntax) && !errors.Is(err, context.Canceled):
		return request.Delay(n), true // a body that was cut off
	}
	return request.RetryDelay(err, n)
}
