// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// applyDemoParameters applies the parameters of a demo: wait, fail, or ask to be called
// again. It returns nil if the action should continue.
func applyDemoParameters(ctx context.Context, s *state, req *hook.Request) (*hook.Response, error) {
	if text := req.Parameters["sleep"]; text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("the parameter sleep is not a duration like 2s: %w", err)
		}
		sdk.Logger(ctx).Info("Waiting as the parameter says", "sleep", d.String())
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if text := req.Parameters["again"]; text != "" {
		times, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("the parameter again is not a number: %w", err)
		}
		calls, err := s.countCalls(req)
		if err != nil {
			return nil, err
		}
		if calls <= times {
			message := fmt.Sprintf("not done yet, %d of %d", calls, times)
			sdk.Logger(ctx).Info("Asking to be called again", "call", calls, "of", times)
			return hook.Again(time.Second, message), nil
		}
	}
	if text := req.Parameters["fail"]; text != "" && text != "false" {
		return nil, errors.New("failing because the parameter fail is set: " + text)
	}
	return nil, nil //nolint:nilnil // nil means to continue
}
