// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime/debug"
)

// While this many operations are open, GOGC is a quarter of its default. The state of
// ten thousand operations stays in memory for hours, and by default the heap would hold
// as much garbage again. With it, they cost 123 MiB of resident memory, where 150 are allowed
// ("memory growth, 10,000 open operations" in docs/performance.md). The additional collections
// cost a tenth of the CPU time of the polls: 0.46 cores instead of 0.41 with 3,000 operations, for
// 45 MiB instead of 59. Starts and cancellations take as long. The lower number restores the default.
const (
	manyOpen, fewOpen = 2000, 1000
	frugalPercent     = 25
	defaultPercent    = 100
)

// gcTuner sets how often the garbage collector of this process runs. It is not safe for concurrent
// use.
type gcTuner struct {
	frugal bool
}

// adapt sets GOGC for a number of open operations, unless it is set in the environment.
func (t *gcTuner) adapt(open int) {
	switch {
	case os.Getenv("GOGC") != "":
	case !t.frugal && open >= manyOpen:
		t.frugal = true
		debug.SetGCPercent(frugalPercent)
	case t.frugal && open < fewOpen:
		t.frugal = false
		debug.SetGCPercent(defaultPercent)
	}
}
