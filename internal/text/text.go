// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package text limits the length of texts that users read.
package text

import (
	"strings"
	"unicode/utf8"
)

const ellipsis = "…"

// Truncate returns s as valid UTF-8 of at most limit bytes. A longer text is cut between
// characters and ends in "…". Invalid UTF-8 is replaced by U+FFFD before: the API server would
// replace it as well, and a controller that compares its status with the stored one would write it
// again forever. The limit is at least 3, the size of the ellipsis.
func Truncate(s string, limit int) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if len(s) <= limit {
		return s
	}
	end := limit - len(ellipsis)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + ellipsis
}
