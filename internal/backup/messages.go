// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"maps"
	"slices"

	"github.com/grapnel-dev/grapnel/internal/results"
)

// joinMessages returns the messages of two runs, and the number of messages of the second
// one that are not in the first: an object that is archived again often has the same
// messages.
func joinMessages(a, b results.Messages) (out results.Messages, added int) {
	join := func(known, more []string) []string {
		more = textsNotIn(known, more)
		added += len(more)
		return slices.Concat(known, more)
	}
	out.Velero, out.Cluster = join(a.Velero, b.Velero), join(a.Cluster, b.Cluster)
	out.Namespaces = maps.Clone(a.Namespaces)
	for namespace, messages := range b.Namespaces {
		if out.Namespaces == nil {
			out.Namespaces = map[string][]string{}
		}
		out.Namespaces[namespace] = join(out.Namespaces[namespace], messages)
	}
	return out, added
}

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
