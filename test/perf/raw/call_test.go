// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package raw

import (
	"context"
	"path/filepath"
	"testing"
)

func TestCalls(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "echo")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Echo(ctx, socket) }()
	times, err := callAll(t.Context(), socket, CallRequest{Calls: 10, Workers: 3, Bytes: 2000})
	if err != nil || times.Seconds <= 0 {
		t.Errorf("times are %+v (%v)", times, err)
	}
	// The last of ten calls begins a tenth of a second after the first.
	times, err = callAll(t.Context(), socket, CallRequest{Calls: 10, Workers: 3, Bytes: 1, PerSecond: 100})
	if err != nil || times.Seconds < 0.1 {
		t.Errorf("times of calls that wait for their time are %+v (%v)", times, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the echo ended with %v", err)
	}
}
