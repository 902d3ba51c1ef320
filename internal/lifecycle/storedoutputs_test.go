// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"strings"
	"testing"
)

// TestStoredOutputs validates outputs from a bucket, which anyone may have written.
func TestStoredOutputs(t *testing.T) {
	many := func(actions, bytes int) map[string]map[string]string {
		outputs := map[string]map[string]string{}
		for i := range actions {
			outputs[fmt.Sprintf("example.io/a%d", i)] = map[string]string{"k": strings.Repeat("x", bytes)}
		}
		return outputs
	}
	for name, tc := range map[string]struct {
		outputs map[string]map[string]string
		problem string
	}{
		"none":               {},
		"usual ones":         {outputs: map[string]map[string]string{"example.io/freeze": {"replicas": "3"}}},
		"too long":           {outputs: map[string]map[string]string{"example.io/freeze": {"k": strings.Repeat("x", 1<<20)}}, problem: "example.io/freeze"},
		"too many":           {outputs: many(100, 10), problem: "100 PreBackup actions"},
		"too much":           {outputs: many(64, 4096), problem: "KiB"},
		"as many as allowed": {outputs: many(64, 1000)},
		"a long value":       {outputs: map[string]map[string]string{"example.io/freeze": {"k": strings.Repeat("x", 4097)}}, problem: "example.io/freeze"},
		"an invalid name":    {outputs: map[string]map[string]string{"example.io/freeze": {"": "v"}}, problem: "example.io/freeze"},
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
