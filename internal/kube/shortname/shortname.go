// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package shortname

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	maxLabel   = 63
	hashLength = 10
)

// Label returns the name of an object as the value of a label: as it is if it fits,
// and shortened otherwise.
func Label(name string) string {
	if len(name) <= maxLabel {
		return name
	}
	return Of(name, maxLabel, name)
}

// Of returns a name of at most limit characters that begins like head, in lower-case
// letters, digits and dashes, and ends with a hash of the parts, which together say
// what is named.
func Of(head string, limit int, parts ...string) string {
	clean := strings.Map(func(c rune) rune {
		if (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') {
			return c
		}
		return '-'
	}, strings.ToLower(head))
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	start := strings.TrimRight(clean[:min(len(clean), limit-hashLength-1)], "-")
	return start + "-" + hex.EncodeToString(sum[:])[:hashLength]
}
