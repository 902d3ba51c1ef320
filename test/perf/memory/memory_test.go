// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"runtime/debug"
	"testing"
)

// A peak that stays after the memory is given back, and goes with ResetPeak, is
// what the benchmark relies on.
func TestPeak(t *testing.T) {
	const size = 64 << 20
	own := Process(0)
	if err := own.ResetPeak(); err != nil {
		t.Fatal(err)
	}
	before := read(t, own.Resident)
	block := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		block[i] = 1
	}
	if block[4096] != 1 {
		t.Fatal("the memory was not written")
	}
	block = nil
	_ = block
	debug.FreeOSMemory()
	if grown := read(t, own.Peak) - before; grown < size*9/10 {
		t.Errorf("the peak grew by %d bytes while %d were used", grown, size)
	}
	if err := own.ResetPeak(); err != nil {
		t.Fatal(err)
	}
	if grown := read(t, own.Peak) - before; grown > size/2 {
		t.Errorf("after the reset the peak is still %d bytes above the beginning", grown)
	}
}

func read(t *testing.T, value func() (int64, error)) int64 {
	t.Helper()
	n, err := value()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestField(t *testing.T) {
	const status = "Name:\tmanager\nVmHWM:\t  123 kB\nVmRSS:\t   45 kB\nVmOdd:\t7\nVmBad:\tx kB\n"
	for name, tc := range map[string]struct {
		want int64
		err  bool
	}{
		"VmHWM": {want: 123 << 10},
		"VmRSS": {want: 45 << 10},
		"VmOdd": {err: true},
		"VmBad": {err: true},
		"VmNot": {err: true},
	} {
		got, err := field(status, name)
		if got != tc.want || (err != nil) != tc.err {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
}
