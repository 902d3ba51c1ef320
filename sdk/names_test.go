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
	for name, valid := range map[string]bool{
		"example.io/freeze": true, "freeze": true, "a/b": true, "a.b-c.d/E_f.g-9": true, strings.Repeat("n", 63): true,
		"": false, "/": false, "a/": false, "/b": false, "a/b/c": false, "A.io/b": false, "a..io/b": false, "-a/b": false,
		"a b": false, "a/-b": false, "a/b.": false, "a/ü": false, strings.Repeat("n", 64): false,
		"a/b\n":                         false,
		strings.Repeat("a", 251) + "/b": true, strings.Repeat("a", 252) + "/b": false,
		strings.Repeat("a", 190) + "/" + strings.Repeat("n", 63): false,
	} {
		err := sdk.ValidateName(name)
		if (err == nil) != valid {
			t.Errorf("ValidateName(%q) = %v, want valid: %v", name, err, valid)
		}
	}
}

func TestWhatIsSaidOfALongName(t *testing.T) {
	t.Parallel()
	err := sdk.ValidateName(strings.Repeat("a", 300) + "/freeze")
	if err == nil || !strings.Contains(err.Error(), "has 307 bytes, at most 253 are allowed") || len(err.Error()) > 253 {
		t.Errorf("error is %v", err)
	}
}
