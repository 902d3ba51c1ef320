// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime/debug"
	"testing"

	"k8s.io/apimachinery/pkg/types"
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
	for _, step := range []struct {
		run            types.UID
		count, percent int
	}{
		{"a", 1, defaultPercent},
		{"a", manyOperations - 1, defaultPercent},
		{"b", 1, frugalPercent},
		{"b", manyOperations, frugalPercent},
		{"b", 0, defaultPercent},
		{"a", manyOperations, frugalPercent},
		{"a", 0, defaultPercent},
	} {
		if tuner.setOperations(step.run, step.count); percent() != step.percent {
			t.Errorf("with %d operations of %q GOGC is %d %%, want %d %%", step.count, step.run, percent(), step.percent)
		}
	}
	t.Setenv("GOGC", "100")
	if tuner.setOperations("a", manyOperations); percent() != defaultPercent {
		t.Errorf("GOGC is %d %%, but the environment sets 100 %%", percent())
	}
}
