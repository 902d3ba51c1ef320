// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"fmt"
	"testing"
)

func TestDescribeMissingNamespaces(t *testing.T) {
	var many []string
	for i := range 12 {
		many = append(many, fmt.Sprint("n", i))
	}
	for name, tc := range map[string]struct {
		included, missing []string
		want              string
	}{
		"one of two":       {included: []string{"a", "b"}, missing: []string{"b"}, want: `namespace "b" does not exist`},
		"two":              {included: []string{"a", "b", "c"}, missing: []string{"b", "c"}, want: `namespaces "b", "c" do not exist`},
		"all":              {included: []string{"a", "b"}, missing: []string{"a", "b"}, want: `none of the included namespaces exists ("a", "b")`},
		"beside a pattern": {included: []string{"a", "x*"}, missing: []string{"a"}, want: `namespace "a" does not exist`},
		"more than a message names": {
			included: append([]string{"x"}, many...), missing: many,
			want: `namespaces "n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9", and 2 more do not exist`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := describeMissingNamespaces(tc.included, tc.missing); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
