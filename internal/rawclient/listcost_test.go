// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

import "testing"

func TestShouldListPerNamespace(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		page       Page
		named, all int
		want       bool
	}{
		"many objects elsewhere":            {page: Page{First: true, Remaining: 1000}, named: 2, all: 10, want: true},
		"few objects elsewhere":             {page: Page{First: true, Remaining: 100}, named: 2, all: 10},
		"as many as the requests cost":      {page: Page{First: true, Remaining: 160}, named: 2, all: 10},
		"one more than the requests cost":   {page: Page{First: true, Remaining: 162}, named: 2, all: 10, want: true},
		"most namespaces are named":         {page: Page{First: true, Remaining: 1000}, named: 9, all: 10},
		"all namespaces are named":          {page: Page{First: true, Remaining: 1 << 40}, named: 10, all: 10},
		"more are named than exist":         {page: Page{First: true, Remaining: 1 << 40}, named: 11, all: 10},
		"unknown number, many objects":      {page: Page{First: true, Remaining: 129}, named: 2, want: true},
		"unknown number, few objects":       {page: Page{First: true, Remaining: 128}, named: 2},
		"a later page":                      {page: Page{Remaining: 1000}, named: 2, all: 10},
		"no more objects":                   {page: Page{First: true}, named: 2, all: 10},
		"the API server does not report it": {page: Page{First: true, Remaining: -1}, named: 2, all: 10},
		"no namespace is named":             {page: Page{First: true, Remaining: 1000}, all: 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.page.ShouldListPerNamespace(tc.named, tc.all); got != tc.want {
				t.Errorf("ShouldListPerNamespace(%d, %d) of %+v returns %t, want %t", tc.named, tc.all, tc.page, got, tc.want)
			}
		})
	}
}
