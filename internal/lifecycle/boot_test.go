// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
)

// TestBoot has work that is running when the process ends, on machines that were restarted or
// not.
func TestBoot(t *testing.T) {
	for name, tc := range map[string]struct {
		before, now string
		wantCrashed bool
		wantFiles   int
	}{
		"the machine kept running":       {before: "b-1", now: "b-1", wantCrashed: true, wantFiles: 1},
		"the machine was restarted":      {before: "b-1", now: "b-2"},
		"the boot ID is unknown":         {wantCrashed: true, wantFiles: 1},
		"the boot ID was unknown before": {now: "b-1"},
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
				t.Errorf("crashed: %v, want %v", got, tc.wantCrashed)
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != tc.wantFiles {
				t.Errorf("files %v, %v; want %d", entries, err, tc.wantFiles)
			}
		})
	}
}
