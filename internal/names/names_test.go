// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package names

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestLabelValue(t *testing.T) {
	long := strings.Repeat("a.very-", 20)
	for name, tc := range map[string]struct{ name, want string }{
		"short":              {"nightly.1", "nightly.1"},
		"as long as a value": {strings.Repeat("a", 63), strings.Repeat("a", 63)},
		"longer":             {strings.Repeat("a", 64), strings.Repeat("a", 52) + "-ffe054fe7a"},
		"no double dash":     {strings.Repeat("a", 50) + "..............", strings.Repeat("a", 50) + "-0eecd644cc"},
		"longest":            {long, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := LabelValue(tc.name)
			if tc.want != "" && got != tc.want {
				t.Errorf("Label(%q) = %q, want %q", tc.name, got, tc.want)
			}
			if tc.want == "" {
				if problems := validation.IsValidLabelValue(got); len(problems) > 0 {
					t.Errorf("Label(%q) = %q: %v", tc.name, got, problems)
				}
			}
		})
	}
	if LabelValue(long+"1") == LabelValue(long+"2") {
		t.Error("two names that differ at their end have the same label")
	}
}

func TestChildName(t *testing.T) {
	for name, tc := range map[string]struct {
		head string
		want string
	}{
		"short":             {"nightly", "nightly-ca978112ca"},
		"cut":               {strings.Repeat("x", 40), strings.Repeat("x", 19) + "-ca978112ca"},
		"cut after a dash":  {strings.Repeat("x", 18) + "--y", strings.Repeat("x", 18) + "-ca978112ca"},
		"invalid as a name": {"Große.Aktion_1", "gro-e-aktion-1-ca978112ca"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ChildName(tc.head, 30, "a")
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if problems := validation.IsDNS1123Subdomain(got); len(got) > 30 || len(problems) > 0 {
				t.Errorf("%q is not a valid name of at most 30 characters: %v", got, problems)
			}
		})
	}
	if ChildName("a", 30, "b", "c") == ChildName("a", 30, "bc") {
		t.Error("different parts result in the same name")
	}
}
