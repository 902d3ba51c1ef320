// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"testing"

	"github.com/go-logr/logr/funcr"
)

// TestNewTracingErrorHandler: a collector that is down for a night does not fill the log.
func TestNewTracingErrorHandler(t *testing.T) {
	t.Parallel()
	lines := 0
	handler := newTracingErrorHandler(funcr.New(func(string, string) { lines++ }, funcr.Options{}))
	for range 100 {
		handler.Handle(errors.New("connection refused"))
	}
	if lines != 1 {
		t.Errorf("100 batches that were not sent are %d lines of the log, want 1", lines)
	}
}
