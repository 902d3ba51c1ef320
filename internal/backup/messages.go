// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"maps"
	"slices"
)

// mergeNameLists returns lists of names by kind, with the new names of more appended.
func mergeNameLists(known, more map[string][]string) map[string][]string {
	out := maps.Clone(known)
	for kind, names := range more {
		if out == nil {
			out = map[string][]string{}
		}
		out[kind] = slices.Concat(out[kind], textsNotIn(out[kind], names))
	}
	return out
}

// textsNotIn returns the texts of more that are not in known, without duplicates.
func textsNotIn(known, more []string) []string {
	seen := make(map[string]bool, len(known))
	for _, text := range known {
		seen[text] = true
	}
	var out []string
	for _, text := range more {
		if !seen[text] {
			seen[text] = true
			out = append(out, text)
		}
	}
	return out
}
