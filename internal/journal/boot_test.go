// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
)

// TestBoot has work go on when the process ends, on machines that were or were not started anew.
func TestBoot(t *testing.T) {
	for name, tc := range map[string]struct {
		before, now string
		wantCrashed bool
		wantFiles   int
	}{
		"the machine went on":              {before: "b-1", now: "b-1", wantCrashed: true, wantFiles: 1},
		"the machine was started anew":     {before: "b-1", now: "b-2"},
		"the machine tells nothing":        {wantCrashed: true, wantFiles: 1},
		"the machine tells nothing before": {now: "b-1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			opened := func(boot string) *Journal {
				j, err := openForBoot(dir, boot, logr.Discard())
				if err != nil {
					t.Fatal(err)
				}
				return j
			}
			opened(tc.before).Begin("u-1.archive")
			if got := opened(tc.now).HasCrashed("u-1.archive"); got != tc.wantCrashed {
				t.Errorf("it has crashed: %v, want %v", got, tc.wantCrashed)
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != tc.wantFiles {
				t.Errorf("files %v, %v; want %d", entries, err, tc.wantFiles)
			}
		})
	}
}
