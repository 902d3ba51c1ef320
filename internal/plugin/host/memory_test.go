// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"
	"testing/fstest"
)

func TestContainerMemoryLimit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file, content string
		want          int64
	}{
		"version 2":                {file: "memory.max", content: "1073741824\n", want: 1 << 30},
		"version 2, without limit": {file: "memory.max", content: "max\n"},
		"version 1":                {file: "memory/memory.limit_in_bytes", content: "1073741824\n", want: 1 << 30},
		"version 1, without limit": {file: "memory/memory.limit_in_bytes", content: "9223372036854771712\n"},
		"no known cgroup":          {file: "cpu.max", content: "max 100000\n"},
		"unexpected content":       {file: "memory.max", content: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := containerMemoryLimit(fstest.MapFS{tc.file: {Data: []byte(tc.content)}}); got != tc.want {
				t.Errorf("the limit is %d, want %d", got, tc.want)
			}
		})
	}
}
