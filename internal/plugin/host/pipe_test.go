// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
)

// TestLogPipe_DrainSignal checks that every line that was written before drainSignal has been
// handled when its channel is closed.
func TestLogPipe_DrainSignal(t *testing.T) {
	t.Parallel()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := newLogPipe(in)
	if err != nil {
		t.Fatal(err)
	}
	var handled atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		readLines(pipe, func([]byte, bool) { handled.Add(1) })
	}()
	for i := range int64(2000) {
		// Sometimes nothing was written, as in most calls.
		if i%3 > 0 {
			if _, err := fmt.Fprintf(out, "line %d\n", i); err != nil {
				t.Fatal(err)
			}
		}
		<-pipe.drainSignal()
		if want := (i + 1) - (i+3)/3; handled.Load() != want {
			t.Fatalf("%d lines are handled after round %d, want %d", handled.Load(), i, want)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	<-ended
	select {
	case <-pipe.drainSignal():
	default:
		t.Error("a log that has ended is waited for")
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
}
