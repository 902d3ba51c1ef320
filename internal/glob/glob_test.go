// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package glob_test

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/glob"
)

func TestCompile(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{ // a name that matches, or an error
		"*":                                   "a.b",
		"*.apps":                              "deployments.apps",
		"deployments.apps":                    "deployments.apps",
		"a*b*c":                               "axbxc",
		"*-a-*-b-*-c-*":                       "x-a-x-b-x-c-x",
		"{pods,secrets}":                      "secrets",
		"*.{apps,*.example.org}":              "widgets.a.example.org",
		"pr-????-??":                          "pr-2026-11",
		"v[0-9][0-9]-[!a-z]-[ab]":             "v10-1-b",
		"{a*,b}?":                             "bc", // the library of Velero panics
		"a**b":                                "a.b",
		"[!a-c]x":                             "dx",
		`\*[a]`:                               "*a",
		"a}":                                  "a}",
		"":                                    "it has 0 bytes",
		strings.Repeat("a", 254):              "it has 254 bytes",
		"a[":                                  "unexpected end of input",
		"{a":                                  "a",
		`a\`:                                  "unexpected end of input",
		"[]":                                  "no characters",
		"[z-a]":                               "not a range",
		strings.Repeat("{,?}", 61) + "{!,%%}": strings.Repeat("a", 60) + "!",
		strings.Repeat("*a", 126):             strings.Repeat("a", 126),
	} {
		compiled, err := glob.Compile(pattern)
		if err == nil && !compiled.Match(want) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", pattern, err, want)
		}
	}
}

// TestGlob_Match has the names that a pattern does not match.
func TestGlob_Match(t *testing.T) {
	t.Parallel()
	for pattern, name := range map[string]string{
		"pods":                                "pods.apps",
		"*.apps":                              "deployments",
		"a?c":                                 "a.c",
		"a*":                                  "a.c",
		"{pods,secrets}":                      "pod",
		"[!a-c]x":                             "ax",
		"a.c":                                 "abc",
		"[^a]":                                "b",
		strings.Repeat("{,?}", 61) + "{!,%%}": strings.Repeat("a", 253),
		strings.Repeat("*a", 126):             strings.Repeat("b", 253),
	} {
		compiled, err := glob.Compile(pattern, '.')
		if err != nil || compiled.Match(name) {
			t.Errorf("%q matches %q, or is rejected: %v", pattern, name, err)
		}
	}
}
