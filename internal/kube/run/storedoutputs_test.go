// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"strings"
	"testing"
)

// TestOutputsAreChecked hands on what a bucket holds, which anybody may have
// written.
func TestOutputsAreChecked(t *testing.T) {
	long := map[string]map[string]string{}
	for i := range 100 {
		long[fmt.Sprintf("example.io/a%d", i)] = map[string]string{"k": strings.Repeat("x", 4000)}
	}
	for name, tc := range map[string]struct {
		outputs map[string]map[string]string
		problem string
	}{
		"none":         {},
		"usual ones":   {outputs: map[string]map[string]string{"example.io/freeze": {"replicas": "3"}}},
		"too long":     {outputs: map[string]map[string]string{"example.io/freeze": {"k": strings.Repeat("x", 1<<20)}}, problem: "example.io/freeze"},
		"too many":     {outputs: long, problem: "KiB"},
		"no good name": {outputs: map[string]map[string]string{"example.io/freeze": {"": "v"}}, problem: "example.io/freeze"},
	} {
		t.Run(name, func(t *testing.T) {
			outputs, err := StoredOutputs(tc.outputs)
			switch {
			case tc.problem == "" && (err != nil || len(outputs) != len(tc.outputs)):
				t.Errorf("got %d outputs and %v", len(outputs), err)
			case tc.problem != "" && (err == nil || !strings.Contains(err.Error(), tc.problem)):
				t.Errorf("error %v, want one with %q", err, tc.problem)
			}
		})
	}
}
