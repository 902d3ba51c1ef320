// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

const (
	maxPrefixLength = 253
	maxNameLength   = 63
)

// ValidateName returns an error that says what is wrong with the name of an
// action, or nil. A name is either "prefix/name" with a DNS subdomain as prefix or
// a name without a slash. The name part consists of letters, digits, '-', '_' and
// '.', begins and ends with a letter or digit and has at most 63 characters: it
// has to fit into the key of a Kubernetes annotation.
func ValidateName(name string) error {
	prefix, rest, slash := strings.Cut(name, "/")
	if !slash {
		prefix, rest = "", name
	}
	switch {
	case name == "":
		return errors.New("the name is empty: use one like \"example.io/freeze\"")
	case strings.Contains(rest, "/"):
		return fmt.Errorf("the name %q has more than one slash: use one like \"example.io/freeze\"", name)
	case slash && !isSubdomain(prefix):
		return fmt.Errorf("the part of %q before the slash is not a DNS name in lower case: use one like \"example.io/freeze\"", name)
	case !isQualifiedName(rest):
		return fmt.Errorf("the name %q has to consist of letters, digits, '-', '_' and '.', begin and end with "+
			"a letter or digit and have at most %d characters, behind an optional DNS prefix and slash", name, maxNameLength)
	}
	return nil
}

func isSubdomain(s string) bool {
	return len(s) <= maxPrefixLength &&
		regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`).MatchString(s)
}

func isQualifiedName(s string) bool {
	return len(s) <= maxNameLength && regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`).MatchString(s)
}
