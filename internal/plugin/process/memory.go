// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// memoryInterval is how often the memory of a child is looked at.
const memoryInterval = 500 * time.Millisecond

// guard ends a child that uses more memory than it may. The operator shares the memory
// limit of its container with all plugins: one that leaks would take it along.
func (p *Process) guard(s *session) {
	ticker := time.NewTicker(memoryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.gone:
			return
		case <-ticker.C:
		}
		used, ok := residentBytes(s.runner.ID())
		if ok && used > p.host.MaxMemory {
			s.runner.killBecause(fmt.Sprintf("used more than %d MiB of memory and was ended", p.host.MaxMemory>>20))
			return
		}
	}
}

// residentBytes returns how much memory a process has, and false if that is not known.
func residentBytes(pid string) (int64, bool) {
	text, err := os.ReadFile("/proc/" + pid + "/statm")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err == nil
}

// ContainerMemory returns the memory limit of the container that this program runs in,
// in bytes, and 0 if it has none or that cannot be found out.
func ContainerMemory() int64 {
	text, err := os.ReadFile("/sys/fs/cgroup/memory.max")
	if err != nil {
		return 0
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0 // "max"
	}
	return limit
}
