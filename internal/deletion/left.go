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
	// MaxLeft is how many entries AddLeft returns at most.
	MaxLeft = 64
	// MaxLeftBytes is how long each of them is at most, in bytes.
	MaxLeftBytes = 2048
)

// AddLeft returns a list of what was left behind with more texts, in their order. What it
// returns has at most MaxLeft entries of at most MaxLeftBytes: of more than it names, the
// last one says how many there are ("and 3 more"), and is understood when texts are
// added later. A text that is named already is not added again. to is not changed.
func AddLeft(to []string, texts ...string) []string {
	named, more := splitLeft(to)
	for _, text := range texts {
		text = cut(text, MaxLeftBytes)
		switch {
		case slices.Contains(named, text):
		case len(named) < MaxLeft-1:
			named = append(named, text)
		default:
			more++
		}
	}
	return joinLeft(named, more)
}

// addUnnamed is AddLeft for a number of things that nobody has a text for.
func addUnnamed(to []string, n int64) []string {
	named, more := splitLeft(to)
	return joinLeft(named, more+n)
}

// splitLeft takes a list apart into what it names and how many more there are.
func splitLeft(list []string) (named []string, more int64) {
	if len(list) > 0 {
		last := list[len(list)-1]
		if _, err := fmt.Sscanf(last, "and %d more", &more); err == nil && more > 0 && last == moreLeft(more) {
			return slices.Clone(list[:len(list)-1]), more
		}
	}
	return slices.Clone(list), 0
}

func joinLeft(named []string, more int64) []string {
	if over := len(named) - (MaxLeft - 1); over > 0 {
		named, more = named[:MaxLeft-1], more+int64(over)
	}
	if more > 0 {
		named = append(named, moreLeft(more))
	}
	return named
}

func moreLeft(n int64) string { return fmt.Sprintf("and %d more", n) }

// cut returns a text of at most so many bytes, whose end says that it was longer.
func cut(text string, limit int) string {
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
