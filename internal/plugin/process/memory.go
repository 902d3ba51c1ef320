// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// memoryCheckInterval is how often the memory of a child is looked at.
const memoryCheckInterval = 500 * time.Millisecond

// enforceMemoryLimit ends a child that uses more memory than it may. The operator shares the memory
// limit of its container with all plugins: one that leaks would take it along.
func (p *Process) enforceMemoryLimit(s *session) {
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

// ContainerMemoryLimit returns the memory limit of the container that this program runs in,
// in bytes, and 0 if it has none or that cannot be found out.
func ContainerMemoryLimit() int64 { return containerMemoryLimit(os.DirFS("/sys/fs/cgroup")) }

// containerMemoryLimit reads the limit where version 2 or version 1 of cgroups has it. The latter
// says that there is none with a number of more than any machine has.
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
