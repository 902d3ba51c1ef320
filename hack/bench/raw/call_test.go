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
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the echo ended with %v", err)
	}
}
