// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package runlog

import (
	"errors"
	"io"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/panics"
)

// broken is a log that panics when it is read.
type broken struct{ closed bool }

// Read implements io.Reader.
func (*broken) Read([]byte) (int, error) { panic("boom") }

// Close implements io.Closer.
func (b *broken) Close() error {
	b.closed = true
	return nil
}

// TestWriteCompressed_Panic: a panic while a log is read becomes an error of that log, and
// does not crash the operator.
func TestWriteCompressed_Panic(t *testing.T) {
	log := &broken{}
	if err := writeCompressed(io.Discard, log); !errors.As(err, new(*panics.Error)) || !log.closed {
		t.Errorf("the error is %v, the log is closed: %t", err, log.closed)
	}
}
