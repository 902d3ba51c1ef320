// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
	"os"
	"runtime/debug"
)

// While this many operations are open, GOGC is a quarter of its default. The state of
// ten thousand operations stays in memory for hours, and by default the heap would hold
// as much garbage again. The additional collections cost a few percent of the CPU time of the
// polls. The lower number restores the default.
const (
	manyOpen, fewOpen = 2000, 1000
	frugalPercent     = 25
	defaultPercent    = 100
)

// frugal is whether the garbage collector runs more often. Its owner guards it.
type frugal bool

// adapt changes that for a number of open operations, unless GOGC is set in the
// environment.
func (f *frugal) adapt(open int) {
	switch {
	case os.Getenv("GOGC") != "":
	case !bool(*f) && open >= manyOpen:
		*f = true
		debug.SetGCPercent(frugalPercent)
	case bool(*f) && open < fewOpen:
		*f = false
		debug.SetGCPercent(defaultPercent)
	}
}
