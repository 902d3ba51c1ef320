// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// FormatVersion is the version of the archive format that Writer writes.
	FormatVersion = "1.1.0"

	versionPath     = "metadata/version"
	resourcesDir    = "resources/"
	clusterDir      = "cluster/"
	namespacesDir   = "namespaces/"
	preferredSuffix = "-preferredversion"
	jsonSuffix      = ".json"
)

// ErrInvalidName is returned for an identity that cannot be part of a path in the archive.
var ErrInvalidName = errors.New("invalid name")

// Identity identifies the object in a file of the archive. It is comparable.
type Identity struct {
	// Group of the API, empty for the core group.
	Group string
	// Version of the API. Walk leaves it empty for the copy of an object that
	// is stored without a version.
	Version string
	// Resource is the plural name, for example "deployments".
	Resource string
	// Preferred reports that Version is the one that the API server prefers.
	Preferred bool
	// Namespace of the object, empty for a cluster-scoped one.
	Namespace string
	// Name of the object.
	Name string
}

// GroupResource returns the name of the directory of the object's kind, for
// example "pods" or "deployments.apps".
func (id Identity) GroupResource() string {
	if id.Group == "" {
		return id.Resource
	}
	return id.Resource + "." + id.Group
}

// Path returns the path of the object: below its version, or without it when Version is
// empty.
func (id Identity) Path() string {
	return string(id.appendPath(nil, id.Version != ""))
}

// Validate checks that every part of id can be one element of a path. Kubernetes forbids
// "/" and "%" in names as well as "." and "..". Some kinds (RBAC) allow everything else, so
// this does too, except what a tar header cannot contain.
func (id Identity) Validate() error {
	for _, part := range []struct {
		what, value string
		optional    bool
	}{
		{"group", id.Group, true},
		{"version", id.Version, false},
		{"resource", id.Resource, false},
		{"namespace", id.Namespace, true},
		{"object", id.Name, false},
	} {
		if part.value == "" && part.optional {
			continue
		}
		if !isValidPathElement(part.value) {
			return fmt.Errorf("%w: %s %q", ErrInvalidName, part.what, part.value)
		}
	}
	return nil
}

// isValidPathElement reports whether s is safe as one element of a path.
func isValidPathElement(s string) bool {
	if s == "" || s == "." || s == ".." {
		return false
	}
	return !strings.ContainsAny(s, "/\x00") && utf8.ValidString(s)
}

// appendPath appends the path of the object to b, with or without its version.
func (id Identity) appendPath(b []byte, versioned bool) []byte {
	b = append(b, resourcesDir...)
	b = append(b, id.Resource...)
	if id.Group != "" {
		b = append(b, '.')
		b = append(b, id.Group...)
	}
	b = append(b, '/')
	if versioned {
		b = append(b, id.Version...)
		if id.Preferred {
			b = append(b, preferredSuffix...)
		}
		b = append(b, '/')
	}
	if id.Namespace == "" {
		b = append(b, clusterDir...)
	} else {
		b = append(b, namespacesDir...)
		b = append(b, id.Namespace...)
		b = append(b, '/')
	}
	b = append(b, id.Name...)
	return append(b, jsonSuffix...)
}

// parseObjectPath is the inverse of appendPath. It accepts only paths that appendPath
// writes.
func parseObjectPath(path string) (Identity, error) {
	invalid := fmt.Errorf("%w: path %q", ErrInvalidName, path)
	rest, ok := strings.CutPrefix(path, resourcesDir)
	if !ok {
		return Identity{}, invalid
	}
	rest, ok = strings.CutSuffix(rest, jsonSuffix)
	if !ok {
		return Identity{}, invalid
	}
	parts := strings.Split(rest, "/")
	for _, part := range parts {
		if !isValidPathElement(part) {
			return Identity{}, invalid
		}
	}
	var id Identity
	var grouped bool
	id.Resource, id.Group, grouped = strings.Cut(parts[0], ".")
	if id.Resource == "" || grouped != (id.Group != "") {
		return Identity{}, invalid
	}
	parts = parts[1:]
	// The number of elements distinguishes a version directory from a scope directory:
	// <scope>/<name> has 2 or 3 elements, with a version 3 or 4. With 3, the first element
	// decides.
	if len(parts) == 4 || (len(parts) == 3 && parts[0]+"/" != namespacesDir) {
		id.Version, id.Preferred = strings.CutSuffix(parts[0], preferredSuffix)
		if id.Version == "" {
			return Identity{}, invalid
		}
		parts = parts[1:]
	}
	switch {
	case len(parts) == 2 && parts[0]+"/" == clusterDir:
		id.Name = parts[1]
	case len(parts) == 3 && parts[0]+"/" == namespacesDir:
		id.Namespace, id.Name = parts[1], parts[2]
	default:
		return Identity{}, invalid
	}
	return id, nil
}
