// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package strictyaml_test

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/strictyaml"
)

func TestToJSON(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]string{
		`{a: 1, b: "*c", c: x && *y}`:         `{"a":1,"b":"*c","c":"x \u0026\u0026 *y"}`,
		"a: |\n  &b *b\nb: yes # &c *c":       `{"a":"\u0026b *b\n","b":true}`,
		"a: &unused {b: 1.5}\nb: ~":           `{"a":{"b":1.5},"b":null}`,
		"":                                    `null`,
		"a: 1\na: 2":                          "already set in map",
		"a: &b":                               `{"a":null}`,
		"\t{":                                 "cannot start any token",
		"&a b: *":                             "did not find expected",
		"a: *b":                               "unknown anchor",
		"a: &b x\nc: *b":                      "line 2: the alias *b is not supported",
		"a: &b {c: d}\ne: {<<: *b}":           "the alias *",
		"? &a b\n: ? *a\n  : c":               "the alias *",
		"- [{a: &b [x]}]\n- {c: [[{d: *b}]]}": "the alias *",
		"--- &a\nb: *a":                       "the alias *",
		"x: &a !!binary QUFB\ny: [*a, *a]":    "the alias *",
	} {
		got, err := strictyaml.ToJSON([]byte(document))
		if err != nil {
			got = []byte(err.Error())
		}
		if string(got) != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40q: %.200s, want %s", document, got, want)
		}
	}
}
