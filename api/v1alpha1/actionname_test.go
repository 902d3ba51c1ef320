// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/sdk"
)

// TestActionName shows that the CRD of a Plugin and the SDK accept the same names.
func TestActionName(t *testing.T) {
	names := map[string]string{
		"a prefix and a name":               "example.io/freeze",
		"a plain name":                      "freeze",
		"capital letters":                   "Freeze.v2",
		"an underscore":                     "freeze_all",
		"an underscore behind the slash":    "example.io/freeze_all",
		"two dots":                          "a..b",
		"a dot before a dash":               "a.-b",
		"a capital letter in the prefix":    "Example.io/freeze",
		"an underscore in the prefix":       "a_b/freeze",
		"two slashes":                       "a/b/c",
		"nothing behind the slash":          "a/",
		"nothing before the slash":          "/a",
		"a space":                           "a b",
		"a line break":                      "a\n",
		"a letter that is not ASCII":        "ü",
		"a dash at the end":                 "a/b-",
		"63 characters":                     strings.Repeat("n", 63),
		"64 characters":                     strings.Repeat("n", 64),
		"51 characters behind the slash":    "a/" + strings.Repeat("n", 51),
		"52 characters behind the slash":    "a/" + strings.Repeat("n", 52),
		"63 characters behind the slash":    "a/" + strings.Repeat("n", 63),
		"64 characters behind the slash":    "a/" + strings.Repeat("n", 64),
		"as many characters as are allowed": strings.Repeat("a", 251) + "/b",
		"one character too many":            strings.Repeat("a", 252) + "/b",
	}
	table := map[string]admission{}
	for what, name := range names {
		for _, kind := range []sdk.Kind{
			sdk.KindPreBackupAction, sdk.KindPostBackupAction, sdk.KindPreRestoreAction, sdk.KindPostRestoreAction,
			sdk.KindBackupItemAction, sdk.KindDeleteAction,
		} {
			tc := admission{body: fmt.Sprintf(`{spec: {executor: {process: {command: p}}, actions: [{name: %s, kind: %s}]}}`, strconv.Quote(name), kind)}
			if sdk.ValidateName(kind, name) != nil {
				tc.rejected = "spec.actions[0]"
			}
			table[what+", "+string(kind)] = tc
		}
	}
	checkAdmission(t, "Plugin", table)
}
