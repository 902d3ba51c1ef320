// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestPace lets runs alone for longer, the more operations they have.
func TestPace(t *testing.T) {
	t.Parallel()
	var p pace
	p.set("few", 10)
	p.set("many", 10_000)
	p.set("over", 10_000)
	p.drop("over")
	for _, tc := range []struct {
		run             string
		progress, ended time.Duration
	}{
		{"few", time.Second, 100 * time.Millisecond},
		{"many", 5 * time.Second, 5 * time.Second},
		{"over", time.Second, 100 * time.Millisecond},
		{"nobody knows", time.Second, 100 * time.Millisecond},
	} {
		if progress, ended := p.pause(types.UID(tc.run), false), p.pause(types.UID(tc.run), true); progress != tc.progress || ended != tc.ended {
			t.Errorf("%s: %s and %s, want %s and %s", tc.run, progress, ended, tc.progress, tc.ended)
		}
	}
}
