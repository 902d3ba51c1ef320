// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package sdk_test

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/sdk"
)

func TestValidateName(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ wantItem, wantHook bool }{
		"example.io/freeze":             {wantItem: true, wantHook: true},
		"freeze":                        {wantItem: true, wantHook: true},
		"Freeze.v2":                     {wantItem: true, wantHook: true},
		"a/b":                           {wantItem: true, wantHook: true},
		"a.b-c.d/E_f.g-9":               {wantItem: true, wantHook: true},
		"E_f":                           {wantItem: true},
		"a..b":                          {wantItem: true},
		"a.-b":                          {wantItem: true},
		"":                              {},
		"/":                             {},
		"a/":                            {},
		"/b":                            {},
		"a/b/c":                         {},
		"A.io/b":                        {},
		"a..io/b":                       {},
		"-a/b":                          {},
		"a b":                           {},
		"a/-b":                          {},
		"a/b.":                          {},
		"a/ü":                           {},
		"a/b\n":                         {},
		strings.Repeat("n", 63):         {wantItem: true, wantHook: true},
		strings.Repeat("n", 64):         {},
		"a/" + strings.Repeat("n", 51):  {wantItem: true, wantHook: true},
		"a/" + strings.Repeat("n", 52):  {wantItem: true},
		"a/" + strings.Repeat("n", 63):  {wantItem: true},
		"a/" + strings.Repeat("n", 64):  {},
		strings.Repeat("a", 251) + "/b": {wantItem: true, wantHook: true},
		strings.Repeat("a", 252) + "/b": {},
		strings.Repeat("a", 190) + "/" + strings.Repeat("n", 63): {},
	} {
		for kind, want := range map[sdk.Kind]bool{
			sdk.KindBackupItemAction: tc.wantItem, sdk.KindRestoreItemAction: tc.wantItem, sdk.KindAsyncBackupItemAction: tc.wantItem,
			sdk.KindAsyncRestoreItemAction: tc.wantItem, sdk.KindDeleteAction: tc.wantItem, sdk.KindDeleteItemAction: tc.wantItem,
			sdk.KindObjectStore: tc.wantItem, sdk.KindPreBackupAction: tc.wantHook, sdk.KindPostBackupAction: tc.wantHook,
			sdk.KindPreRestoreAction: tc.wantHook, sdk.KindPostRestoreAction: tc.wantHook,
		} {
			if err := sdk.ValidateName(kind, name); (err == nil) != want {
				t.Errorf("ValidateName(%s, %q) = %v, want valid: %v", kind, name, err, want)
			}
		}
	}
}

func TestValidateName_Messages(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind sdk.Kind
		name string
		want string
	}{
		"a name that is too long": {
			kind: sdk.KindBackupItemAction, name: strings.Repeat("a", 300) + "/freeze", want: "has 307 bytes, at most 253 are allowed",
		},
		"a hook whose annotation would be too long": {
			kind: sdk.KindPreBackupAction, name: "a/" + strings.Repeat("n", 52), want: "has 52 characters, at most 51 are allowed for a hook",
		},
		"a hook whose annotation would have no valid prefix": {
			kind: sdk.KindPostRestoreAction, name: "thaw_all", want: "is not a DNS name, as a hook without a slash needs it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := sdk.ValidateName(tc.kind, tc.name)
			if err == nil || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 253 {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
		})
	}
}
