// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"fmt"
	"slices"

	"github.com/grapnel-dev/grapnel/internal/text"
)

const (
	// MaxLeftovers is the maximum number of entries that AppendLeftovers returns.
	MaxLeftovers = 64
	// MaxLeftoverBytes is the maximum length of each entry, in bytes.
	MaxLeftoverBytes = 2048
)

// AppendLeftovers appends texts to a list of what was left behind, in their order. The result
// has at most MaxLeftovers entries of at most MaxLeftoverBytes. If there are more, the last entry
// has the number of the others ("and 3 more"), which later calls understand and update. A text
// that is already in the list is not added again. The argument to is not modified.
func AppendLeftovers(to []string, leftovers ...string) []string {
	named, more := splitLeftovers(to)
	for _, leftover := range leftovers {
		leftover = text.Truncate(leftover, MaxLeftoverBytes)
		switch {
		case slices.Contains(named, leftover):
		case len(named) < MaxLeftovers-1:
			named = append(named, leftover)
		default:
			more++
		}
	}
	return joinLeftovers(named, more)
}

// appendUnnamedLeftovers is like AppendLeftovers, for n leftovers without a text.
func appendUnnamedLeftovers(to []string, n int64) []string {
	named, more := splitLeftovers(to)
	return joinLeftovers(named, more+n)
}

// splitLeftovers splits a list into its texts and the number of further ones.
func splitLeftovers(list []string) (named []string, more int64) {
	if len(list) > 0 {
		last := list[len(list)-1]
		if _, err := fmt.Sscanf(last, "and %d more", &more); err == nil && more > 0 && last == formatMoreLeftovers(more) {
			return slices.Clone(list[:len(list)-1]), more
		}
	}
	return slices.Clone(list), 0
}

func joinLeftovers(named []string, more int64) []string {
	if over := len(named) - (MaxLeftovers - 1); over > 0 {
		named, more = named[:MaxLeftovers-1], more+int64(over)
	}
	if more > 0 {
		named = append(named, formatMoreLeftovers(more))
	}
	return named
}

func formatMoreLeftovers(n int64) string { return fmt.Sprintf("and %d more", n) }
