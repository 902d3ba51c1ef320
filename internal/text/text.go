// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package text limits the length of texts that users read, and removes control characters from them.
package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/runes"
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

// StripControl returns s without control characters; see IsControl. Invalid UTF-8 is replaced by U+FFFD.
func StripControl(s string) string {
	return runes.Remove(runes.Predicate(IsControl)).String(s)
}

// IsControl reports whether a character can change what is shown elsewhere: all control characters but tabs and line
// ends, those that change the direction of the text, and the two noncharacters that XML does not allow.
func IsControl(r rune) bool {
	switch r {
	case '\n', '\t':
		return false
	case '\uFFFE', '\uFFFF':
		return true
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// Pluralize returns a number with a noun, in the plural unless the number is 1.
func Pluralize(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
