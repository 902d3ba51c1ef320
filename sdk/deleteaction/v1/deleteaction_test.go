// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	deletev1 "github.com/grapnel-dev/grapnel/sdk/deleteaction/v1"
)

func TestSelector(t *testing.T) {
	t.Parallel()
	backup := labels.Set{"app": "shop", "tier": "web"}
	for name, tc := range map[string]struct {
		selector string
		selects  bool
		wantErr  string
	}{
		"empty selector selects every Backup": {selects: true},
		"a label":                             {selector: "app=shop", selects: true},
		"other label":                         {selector: "app=shop,tier!=web"},
		"a set":                               {selector: "app in (shop, crm)", selects: true},
		"longest selector":                    {selector: "app=shop" + strings.Repeat(" ", deletev1.MaxSelectorBytes-8), selects: true},
		"too long":                            {selector: strings.Repeat("x", deletev1.MaxSelectorBytes+1), wantErr: "has 1025 bytes, at most 1024 are allowed"},
		"invalid selector":                    {selector: "app=shop=crm", wantErr: `(it is "app=shop=crm")`},
		"invalid value":                       {selector: "app=a b", wantErr: "cannot be read"},
		"not UTF-8":                           {selector: "app=\xff", wantErr: "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := deletev1.Selector{LabelSelector: tc.selector}.Parse()
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error is %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Matches(backup) != tc.selects {
				t.Errorf("selects the Backup: %v, want %v", !tc.selects, tc.selects)
			}
		})
	}
}
