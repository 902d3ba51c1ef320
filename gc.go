// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime/debug"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// While unfinished runs have this many operations, GOGC is a quarter of its default. The state of
// thousands of operations stays in memory for hours, and by default the heap would hold as much
// garbage again ("memory growth" in docs/performance.md). The additional collections cost a tenth of
// the CPU time of the polls: 0.46 cores instead of 0.41 with 3,000 operations. Starts and
// cancellations take as long.
const (
	manyOperations = 500
	frugalPercent  = 25
	defaultPercent = 100
)

// gcTuner sets how often the garbage collector of this process runs. It is safe for concurrent use;
// the zero value is ready to use.
type gcTuner struct {
	mu         sync.Mutex
	operations map[types.UID]int
	frugal     bool
}

// setOperations records how many operations a run has, 0 when it has finished, and sets GOGC for
// those of all runs, unless it is set in the environment.
func (t *gcTuner) setOperations(run types.UID, count int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.operations == nil {
		t.operations = map[types.UID]int{}
	}
	t.operations[run] = count
	if count == 0 {
		delete(t.operations, run)
	}
	total := 0
	for _, n := range t.operations {
		total += n
	}
	frugal := total >= manyOperations
	if frugal == t.frugal || os.Getenv("GOGC") != "" {
		return
	}
	t.frugal = frugal
	percent := defaultPercent
	if frugal {
		percent = frugalPercent
	}
	debug.SetGCPercent(percent)
}
