// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

func TestContextError(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, stop := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer stop()
	cause := errors.New("the API server did not answer")
	for want, ctx := range map[executor.ErrorKind]context.Context{
		executor.Unreachable: t.Context(), executor.Interrupted: cancelled, executor.Timeout: late,
	} {
		err := contextError(ctx, executor.Call{Point: executor.PointPreBackup, Action: "example.io/freeze"}, cause)
		if got := executor.ErrorKindOf(err); got != want || !errors.Is(err, cause) {
			t.Errorf("kind %s (%v), want %s", got, err, want)
		}
		if interrupted := errors.Is(err, context.Canceled); interrupted != (want == executor.Interrupted) {
			t.Errorf("%s: errors.Is(err, context.Canceled) = %t: %v", want, interrupted, err)
		}
	}
}
