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
	// maxLength is how long a name may be as a whole. The operator writes names into
	// fields of Kubernetes objects that take no more.
	maxLength = 253
	// maxNameLength is how long the part behind the slash may be.
	maxNameLength = 63
)

// ValidateName returns an error that says what is wrong with the name of an
// action, or nil. A name is either "prefix/name" with a DNS subdomain as prefix or
// a name without a slash. The name part consists of letters, digits, '-', '_' and
// '.', begins and ends with a letter or digit and has at most 63 characters: it
// has to fit into the key of a Kubernetes annotation. All of it, with prefix and slash,
// has at most 253.
func ValidateName(name string) error {
	prefix, rest, slash := strings.Cut(name, "/")
	if !slash {
		prefix, rest = "", name
	}
	switch {
	case name == "":
		return errors.New("the name is empty: use one like \"example.io/freeze\"")
	case len(name) > maxLength:
		return fmt.Errorf("the name %q has %d bytes, at most %d are allowed together with prefix and slash: use a shorter prefix",
			name[:maxNameLength]+"...", len(name), maxLength)
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
	return regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`).MatchString(s)
}

func isQualifiedName(s string) bool {
	return len(s) <= maxNameLength && regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`).MatchString(s)
}
