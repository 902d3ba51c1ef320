// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import "testing"

func TestFormatBytes(t *testing.T) {
	for size, want := range map[int64]string{
		-1: "-1 B", 0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 1536: "1.50 KiB", 123_456: "121 KiB", 18_120_004: "17.3 MiB", 1 << 40: "1.00 TiB", 1 << 60: "1048576 TiB",
	} {
		if got := formatBytes(size); got != want {
			t.Errorf("%d: %s, want %s", size, got, want)
		}
	}
}
