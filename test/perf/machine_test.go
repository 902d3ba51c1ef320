// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestDescribeMachine(t *testing.T) {
	const memory = "MemTotal:       24587264 kB\nMemFree:         1000 kB\n"
	got, err := describeMachine(2, memory, "0.50 1.25 2.00 3/153 1506\n")
	if want := "2 CPUs, 23 GiB of memory; load average before the first request: 0.50"; got != want || err != nil {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
	if got, err := describeMachine(2, "", "0.50"); err == nil {
		t.Errorf("got %q without an error from no memory at all", got)
	}
	if got, err := machine(); err != nil {
		t.Errorf("this machine: %q, %v", got, err)
	}
}
