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
		strings.Repeat("a.", 127) + "a/b": false, "a/b\n": false,
	} {
		err := sdk.ValidateName(name)
		if (err == nil) != valid {
			t.Errorf("ValidateName(%q) = %v, want valid: %v", name, err, valid)
		}
	}
}
