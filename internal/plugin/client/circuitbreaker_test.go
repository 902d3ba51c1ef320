// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"sync"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

func TestCircuitBreaker_Record(t *testing.T) {
	t.Parallel()
	const (
		ok          = executor.ErrorKind("")
		failed      = executor.Failed
		timeout     = executor.Timeout
		gone        = executor.Unreachable
		interrupted = executor.Interrupted
	)
	for name, tc := range map[string]struct {
		calls   []executor.ErrorKind
		givenUp bool
	}{
		"no call":                           {nil, false},
		"two timeouts":                      {[]executor.ErrorKind{timeout, timeout}, false},
		"three timeouts":                    {[]executor.ErrorKind{timeout, timeout, timeout}, true},
		"timeouts and exits":                {[]executor.ErrorKind{gone, timeout, gone}, true},
		"a good answer in between":          {[]executor.ErrorKind{timeout, timeout, ok, timeout, timeout}, false},
		"an error is an answer":             {[]executor.ErrorKind{timeout, timeout, failed, timeout, timeout}, false},
		"errors only":                       {[]executor.ErrorKind{failed, failed, failed, failed}, false},
		"the end of the run is no answer":   {[]executor.ErrorKind{timeout, timeout, interrupted, timeout}, true},
		"the end of the run":                {[]executor.ErrorKind{interrupted, interrupted, interrupted}, false},
		"a late answer does not bring back": {[]executor.ErrorKind{timeout, timeout, timeout, ok, ok}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var guard CircuitBreaker
			for _, kind := range tc.calls {
				began, _ := guard.AllowCall()
				guard.Record(began, kind, errors.New("did not answer"))
			}
			want := ""
			if tc.givenUp {
				want = "3 consecutive calls had no answer: check the plugin and its log; the last of them did not answer"
			}
			_, err := guard.AllowCall()
			wantError(t, err, want)
		})
	}
}

// Calls that were open when a plugin exited report one exit, not several.
func TestCircuitBreaker_ConcurrentLosses(t *testing.T) {
	t.Parallel()
	var guard CircuitBreaker
	for exits := range MaxUnanswered {
		var open []CallStart
		for range 2 * MaxUnanswered {
			began, err := guard.AllowCall()
			if err != nil {
				t.Fatalf("given up after %d exits", exits)
			}
			open = append(open, began)
		}
		for _, began := range open {
			guard.Record(began, executor.Unreachable, errors.New("exited"))
		}
	}
	if _, err := guard.AllowCall(); err == nil {
		t.Error("not given up")
	}
}

func TestCircuitBreaker_ConcurrentUse(t *testing.T) {
	t.Parallel()
	var guard CircuitBreaker
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				began, _ := guard.AllowCall()
				guard.Record(began, executor.Timeout, errors.New("late"))
			}
		})
	}
	wg.Wait()
	if _, err := guard.AllowCall(); err == nil {
		t.Error("not given up")
	}
}
