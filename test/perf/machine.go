// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// machine says what the figures were measured on, and how busy it was with other
// things: without that they cannot be compared with others.
func machine() (string, error) {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "", fmt.Errorf("reading the load of the machine: %w", err)
	}
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return "", fmt.Errorf("reading the memory of the machine: %w", err)
	}
	return describeMachine(runtime.NumCPU(), string(memory), string(load))
}

func describeMachine(cpus int, memory, load string) (string, error) {
	var total int64
	if _, err := fmt.Sscanf(memory, "MemTotal: %d kB", &total); err != nil {
		return "", fmt.Errorf("reading the memory of the machine: %w", err)
	}
	minute, _, _ := strings.Cut(load, " ")
	return fmt.Sprintf("%d CPUs, %.0f GiB of memory; load average before the first request: %s",
		cpus, float64(total)/(1<<20), minute), nil
}
