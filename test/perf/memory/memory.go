// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Process is a process to look at; 0 is the caller's own.
type Process int

func (p Process) file(name string) string {
	if p == 0 {
		return "/proc/self/" + name
	}
	return "/proc/" + strconv.Itoa(int(p)) + "/" + name
}

// Resident returns the resident memory in bytes.
func (p Process) Resident() (int64, error) { return p.field("VmRSS") }

// Peak returns the most resident memory, in bytes, since the process started or
// since ResetPeak.
func (p Process) Peak() (int64, error) { return p.field("VmHWM") }

// ResetPeak makes what is resident now the peak.
func (p Process) ResetPeak() error {
	if err := os.WriteFile(p.file("clear_refs"), []byte("5"), 0); err != nil {
		return fmt.Errorf("resetting the peak of the resident memory: %w", err)
	}
	return nil
}

func (p Process) field(name string) (int64, error) {
	content, err := os.ReadFile(p.file("status"))
	if err != nil {
		return 0, fmt.Errorf("reading the memory of a process: %w", err)
	}
	value, err := field(string(content), name)
	if err != nil {
		return 0, fmt.Errorf("reading the memory of a process: %w", err)
	}
	return value, nil
}

// field returns a field of /proc/PID/status in bytes.
func field(status, name string) (int64, error) {
	for line := range strings.Lines(status) {
		rest, found := strings.CutPrefix(line, name+":")
		if !found {
			continue
		}
		number, found := strings.CutSuffix(strings.TrimSpace(rest), " kB")
		if !found {
			return 0, fmt.Errorf("%s is not in kB: %q", name, strings.TrimSpace(rest))
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s is no number: %w", name, err)
		}
		return kib << 10, nil
	}
	return 0, fmt.Errorf("there is no %s", name)
}
