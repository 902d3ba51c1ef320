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
	// maxQualifiedNameLength is the maximum length of a complete name. The operator writes names
	// into fields of Kubernetes objects with this limit.
	maxQualifiedNameLength = 253
	// maxNameLength is the maximum length of the part after the slash; Kubernetes and
	// Velero have the same limit.
	maxNameLength = 63
	// maxHookNameLength is the maximum length of the part after the slash in the name of a
	// hook: the annotation that skips it appends at most ".postrestore".
	maxHookNameLength = maxNameLength - len(".postrestore")
)

var (
	subdomainPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	namePattern      = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
)

// ValidateName returns an error that says what is wrong with the name of an action of a
// kind, or nil. A name is either "prefix/name" with a DNS subdomain as prefix, or a name
// without a slash. The name part consists of letters, digits, '-', '_' and '.', begins and
// ends with a letter or digit and has at most 63 characters. The complete name, with prefix
// and slash, has at most 253.
//
// A hook (PreBackupAction, PostBackupAction, PreRestoreAction, PostRestoreAction) can be
// skipped with an annotation that contains its name, so its name has to fit into an
// annotation key: after a slash it has at most 51 characters, and without a slash it is a
// DNS subdomain in which capital letters are allowed. The CRD of Plugin has the same rules.
//
// https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/
func ValidateName(kind Kind, name string) error {
	prefix, rest, slash := strings.Cut(name, "/")
	if !slash {
		prefix, rest = "", name
	}
	switch {
	case name == "":
		return errors.New("the name is empty: use one like \"example.io/freeze\"")
	case len(name) > maxQualifiedNameLength:
		return fmt.Errorf("the name %q has %d bytes, at most %d are allowed together with prefix and slash: use a shorter prefix",
			name[:maxNameLength]+"...", len(name), maxQualifiedNameLength)
	case strings.Contains(rest, "/"):
		return fmt.Errorf("the name %q has more than one slash: use one like \"example.io/freeze\"", name)
	case slash && !subdomainPattern.MatchString(prefix):
		return fmt.Errorf("the part of %q before the slash is not a DNS name in lower case: use one like \"example.io/freeze\"", name)
	case len(rest) > maxNameLength || !namePattern.MatchString(rest):
		return fmt.Errorf("the name %q has to consist of letters, digits, '-', '_' and '.', begin and end with "+
			"a letter or digit and have at most %d characters, after an optional DNS prefix and slash", name, maxNameLength)
	case kind.isHook():
		return validateHookName(name, rest, slash)
	}
	return nil
}

func validateHookName(name, rest string, slash bool) error {
	switch {
	case slash && len(rest) > maxHookNameLength:
		return fmt.Errorf("the part of %q after the slash has %d characters, at most %d are allowed for a hook: "+
			"an annotation with the name skips it", name, len(rest), maxHookNameLength)
	case !slash && !subdomainPattern.MatchString(strings.ToLower(name)):
		return fmt.Errorf("the name %q is not a DNS name, as a hook without a slash needs it: an annotation with the name "+
			"skips it; use one like \"example.io/freeze\"", name)
	}
	return nil
}

// isHook reports whether actions of the kind run once for a Backup or Restore.
func (k Kind) isHook() bool {
	switch k {
	case KindPreBackupAction, KindPostBackupAction, KindPreRestoreAction, KindPostRestoreAction:
		return true
	default:
		return false
	}
}
