// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/PID/stat, the same on every machine that Linux runs on today.
const tick = 10 * time.Millisecond

// Process is a process to look at; 0 is the caller's own.
type Process int

// Time returns the processor time, in steps of 10 ms, that the process took since it
// started, without that of its children.
func (p Process) Time() (time.Duration, error) {
	name := "self"
	if p != 0 {
		name = strconv.Itoa(int(p))
	}
	content, err := os.ReadFile("/proc/" + name + "/stat")
	if err != nil {
		return 0, fmt.Errorf("reading the processor time of a process: %w", err)
	}
	taken, err := parse(string(content))
	if err != nil {
		return 0, fmt.Errorf("reading the processor time of a process: %w", err)
	}
	return taken, nil
}

// parse adds up the fields utime and stime. The name before them may contain anything.
func parse(stat string) (time.Duration, error) {
	const user, system = 11, 12 // counted behind the name
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= system {
		return 0, errors.New("it has too few fields")
	}
	var sum time.Duration
	for _, field := range []string{fields[user], fields[system]} {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is no time: %w", field, err)
		}
		sum += time.Duration(ticks) * tick
	}
	return sum, nil
}
