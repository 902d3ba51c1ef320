// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime/debug"
	"testing"
)

// TestGCTuner checks the GOGC setting. The setting is global to the process, so the test does not
// run in parallel with others.
func TestGCTuner(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(defaultPercent)
	defer debug.SetGCPercent(before)
	percent := func() int {
		now := debug.SetGCPercent(defaultPercent)
		debug.SetGCPercent(now)
		return now
	}
	var tuner gcTuner
	for _, step := range []struct{ open, percent int }{
		{1, defaultPercent},
		{manyOpen - 1, defaultPercent},
		{manyOpen, frugalPercent},
		{manyOpen + 1, frugalPercent},
		{fewOpen, frugalPercent},
		{fewOpen - 1, defaultPercent},
		{manyOpen - 1, defaultPercent},
		{manyOpen, frugalPercent},
		{0, defaultPercent},
	} {
		if tuner.adapt(step.open); percent() != step.percent {
			t.Errorf("with %d operations GOGC is %d %%, want %d %%", step.open, percent(), step.percent)
		}
	}
	t.Setenv("GOGC", "100")
	if tuner.adapt(manyOpen); percent() != defaultPercent {
		t.Errorf("GOGC is %d %%, but the environment sets 100 %%", percent())
	}
}
