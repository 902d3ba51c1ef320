// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// memoryCheckInterval is the interval at which the memory of a child is checked.
const memoryCheckInterval = 500 * time.Millisecond

// enforceMemoryLimit kills a child that exceeds its memory limit. The operator shares the memory
// limit of its container with all plugins: a plugin that leaks would take the operator down.
func (p *Process) enforceMemoryLimit(s *processSession) {
	ticker := time.NewTicker(memoryCheckInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.terminated:
			return
		case <-ticker.C:
		}
		used, ok := residentBytes(s.child.ID())
		if ok && used > p.host.MaxMemory {
			s.child.killWithReason(fmt.Sprintf("used more than %d MiB of memory and was ended", p.host.MaxMemory>>20))
			return
		}
	}
}

// residentBytes returns the resident memory of a process, and false if it is unknown.
func residentBytes(pid string) (int64, bool) {
	text, err := os.ReadFile("/proc/" + pid + "/statm")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err == nil
}

// ContainerMemoryLimit returns the memory limit in bytes of the container that this program
// runs in, and 0 if it has none or it cannot be determined.
func ContainerMemoryLimit() int64 { return containerMemoryLimit(os.DirFS("/sys/fs/cgroup")) }

// containerMemoryLimit reads the limit from the files of cgroups version 2 or version 1. Version
// 1 represents no limit as a number larger than the memory of any machine.
func containerMemoryLimit(cgroup fs.FS) int64 {
	for _, file := range []string{"memory.max", "memory/memory.limit_in_bytes"} {
		text, err := fs.ReadFile(cgroup, file)
		if err != nil {
			continue
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil || limit >= 1<<60 {
			return 0 // "max"
		}
		return limit
	}
	return 0
}
