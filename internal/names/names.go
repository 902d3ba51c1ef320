// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package names

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	maxLabelLength = 63
	hashLength     = 10
)

// LabelValue returns the name of an object as the value of a label: unchanged if it fits,
// shortened otherwise.
func LabelValue(name string) string {
	if len(name) <= maxLabelLength {
		return name
	}
	return ChildName(name, maxLabelLength, name)
}

// ChildName returns a name of at most limit characters that begins like head, in lower-case
// letters, digits and dashes, and ends with a hash of the parts, which together identify
// the object.
func ChildName(head string, limit int, parts ...string) string {
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
