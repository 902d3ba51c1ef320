// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/internal/text"
)

func TestTruncate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"empty":                       {limit: 10},
		"shorter than the limit":      {text: "short", limit: 10, want: "short"},
		"at the limit":                {text: "0123456789", limit: 10, want: "0123456789"},
		"longer than the limit":       {text: "0123456789x", limit: 10, want: "0123456…"},
		"cut between characters":      {text: "€€€€", limit: 9, want: "€€…"},
		"cut in a character of two":   {text: "ééééééé", limit: 10, want: "ééé…"},
		"cut in a character of three": {text: "x€€€€", limit: 9, want: "x€…"},
		"cut in a character of four":  {text: "x😀😀😀", limit: 10, want: "x😀…"},
		"invalid at the end":          {text: "x\xff", limit: 10, want: "x\uFFFD"},
		"half a character at the end": {text: "x\xe2\x82", limit: 10, want: "x\uFFFD"},
		"grows by the replacement":    {text: "a\xffb\xffc\xffd\xff", limit: 10, want: "a\uFFFDb…"},
		"only continuation bytes":     {text: strings.Repeat("\x80", 20), limit: 10, want: "\uFFFD"},
		"limit of the ellipsis":       {text: "long", limit: 3, want: "…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := text.Truncate(tc.text, tc.limit); got != tc.want {
				t.Errorf("Truncate returns %q, want %q", got, tc.want)
			}
		})
	}
}

func TestStripControl(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"text":             {"Grüße, 世界\tok\n", "Grüße, 世界\tok\n"},
		"colors":           {"\x1b[31mred\x1b[0m", "[31mred[0m"},
		"moves the cursor": {"a\rb\bc\x7f\u009b2Jd", "abc2Jd"},
		"changes of order": {"a\u202eb\u2066c", "abc"},
		"no XML":           {"a\x00b\ufffec\uffffd", "abcd"},
		"invalid UTF-8":    {"a\xffb", "a\ufffdb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := text.StripControl(tc.text); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func FuzzTruncate(f *testing.F) {
	f.Add("a\xffb€", 5)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(limit, 3)
		if got := text.Truncate(s, limit); len(got) > limit || !utf8.ValidString(got) {
			t.Errorf("Truncate(%q, %d) returns %q", s, limit, got)
		}
	})
}
