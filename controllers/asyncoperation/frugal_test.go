// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
	"runtime/debug"
	"testing"
)

// TestFrugal follows how often the garbage collector works. It is about the whole process,
// and so no other test runs at the same time.
func TestFrugal(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(defaultPercent)
	defer debug.SetGCPercent(before)
	percent := func() int {
		now := debug.SetGCPercent(defaultPercent)
		debug.SetGCPercent(now)
		return now
	}
	var f frugal
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
		if f.adapt(step.open); percent() != step.percent {
			t.Errorf("with %d operations it works at %d %%, want %d %%", step.open, percent(), step.percent)
		}
	}
	t.Setenv("GOGC", "100")
	if f.adapt(manyOpen); percent() != defaultPercent {
		t.Errorf("it works at %d %%, and the environment says 100 %%", percent())
	}
}
