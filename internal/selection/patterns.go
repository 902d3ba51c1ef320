// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

// Patterns is a list of names and patterns (*, ?, [abc], {a,b}), as the lists of
// namespaces are; "*" is every name. It does not change, so it may be used
// concurrently. The zero Patterns has no entry.
type Patterns struct{ matcher matcher }

// NewPatterns returns the Patterns of a list. An invalid pattern is an error that names it.
func NewPatterns(entries []string) (Patterns, error) {
	m, err := newMatcher(entries)
	if err != nil {
		return Patterns{}, err
	}
	return Patterns{matcher: *m}, nil
}

// Matches reports whether an entry matches the name.
func (p *Patterns) Matches(name string) bool { return p.matcher.matchesName(name) }

// IsEmpty reports whether there is no entry.
func (p *Patterns) IsEmpty() bool { return p.matcher.isEmpty() }

// IsUnrestricted reports whether the list, used as an include list, restricts nothing: it
// is empty, or "*".
func (p *Patterns) IsUnrestricted() bool { return p.matcher.isUnrestricted() }
