// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/glob"
)

// matchAll is the entry that matches all names.
const matchAll = "*"

// patternCharacters are the special characters in a glob pattern.
const patternCharacters = `*?[]{}\`

// matcher is a set of names and patterns. Names are in a map, so a lookup per item is
// cheap; only patterns cost a comparison each.
type matcher struct {
	names    map[string]struct{}
	patterns []glob.Glob
	all      bool
}

// newMatcher returns a matcher of the entries. An invalid pattern is an error that names
// it.
func newMatcher(entries []string) (*matcher, error) {
	m := &matcher{names: make(map[string]struct{}, len(entries))}
	for _, entry := range entries {
		if err := m.addEntry(entry); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *matcher) addEntry(entry string) error {
	switch {
	case entry == matchAll:
		m.all = true
	case isPattern(entry):
		g, err := glob.Compile(entry)
		if err != nil {
			return fmt.Errorf("reading pattern %q: %w", entry, err)
		}
		m.patterns = append(m.patterns, g)
	default:
		m.names[entry] = struct{}{}
	}
	return nil
}

func (m *matcher) matchesName(name string) bool {
	if m.all {
		return true
	}
	if _, ok := m.names[name]; ok {
		return true
	}
	for _, p := range m.patterns {
		if p.Match(name) {
			return true
		}
	}
	return false
}

// isEmpty reports whether the matcher has no entries.
func (m *matcher) isEmpty() bool {
	return !m.all && len(m.names) == 0 && len(m.patterns) == 0
}

// isUnrestricted reports whether the matcher, used as an include list, restricts nothing.
func (m *matcher) isUnrestricted() bool {
	return m.isEmpty() || m.all && len(m.names) == 0 && len(m.patterns) == 0
}

func isPattern(entry string) bool {
	return strings.ContainsAny(entry, patternCharacters)
}
