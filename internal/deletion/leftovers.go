// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// MaxLeftovers is how many entries AppendLeftovers returns at most.
	MaxLeftovers = 64
	// MaxLeftoverBytes is how long each of them is at most, in bytes.
	MaxLeftoverBytes = 2048
)

// AppendLeftovers returns a list of what was left behind with more texts, in their order. What it
// returns has at most MaxLeftovers entries of at most MaxLeftoverBytes: of more than it names, the
// last one says how many there are ("and 3 more"), and is understood when texts are
// added later. A text that is named already is not added again. to is not changed.
func AppendLeftovers(to []string, texts ...string) []string {
	named, more := splitLeftovers(to)
	for _, text := range texts {
		text = truncateUTF8(text, MaxLeftoverBytes)
		switch {
		case slices.Contains(named, text):
		case len(named) < MaxLeftovers-1:
			named = append(named, text)
		default:
			more++
		}
	}
	return joinLeftovers(named, more)
}

// appendUnnamedLeftovers is AppendLeftovers for a number of things that nobody has a text for.
func appendUnnamedLeftovers(to []string, n int64) []string {
	named, more := splitLeftovers(to)
	return joinLeftovers(named, more+n)
}

// splitLeftovers takes a list apart into what it names and how many more there are.
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

// truncateUTF8 returns a text of at most so many bytes, whose end says that it was longer.
func truncateUTF8(text string, limit int) string {
	const ellipsis = "…"
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	end := limit - len(ellipsis)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
