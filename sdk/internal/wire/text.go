// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"
	"unicode/utf8"
)

// Cut returns s as valid UTF-8 of at most limit bytes; truncated text ends in "…".
func Cut(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	const ellipsis = "…"
	cut := limit - len(ellipsis)
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + ellipsis
}
