// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

const (
	// maxNamespaces is how many the status takes.
	maxNamespaces = 4096
	// maxListBytes is how many bytes the list of what is in an archive may have, uncompressed, and
	// maxTokenBytes what is read of it for one name: a bucket is not trusted.
	maxListBytes, maxTokenBytes = 1 << 30, 1 << 20
	// allNamespaces are all, and noNamespace none, as in a spec.
	allNamespaces, noNamespace = "*", ""
)

// errUnusableList says that nobody can tell from its list what a backup has.
var errUnusableList = errors.New("no list of what is in the archive can be used")

// backupNamespaces are namespaces, by their names in a backup or as globs.
type backupNamespaces struct{ included, excluded []string }

// readBackupNamespaces returns which namespaces a backup has, for the actions of the Restore: those of
// which the list of its archive names an object. The namespaces themselves do not count: they
// are there for their labels, too. Velero stores that list as well. If it is missing or cannot
// be read, they are those that the backup was to include. What comes from the bucket is
// checked: an entry that nothing can be done with would fail every call.
func readBackupNamespaces(ctx context.Context, store *backupstore.Store, name string) (backupNamespaces, error) {
	listed, err := readListedNamespaces(ctx, store, name)
	if !errors.Is(err, errUnusableList) {
		return backupNamespaces{included: listed}, err
	}
	manifest, _, err := store.ReadManifest(ctx, name)
	if err != nil {
		return backupNamespaces{}, err
	}
	var backup struct {
		Spec struct {
			IncludedNamespaces []string `json:"includedNamespaces"`
			ExcludedNamespaces []string `json:"excludedNamespaces"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(manifest, &backup); err != nil {
		return backupNamespaces{}, fmt.Errorf("reading which namespaces backup %q includes: %w", name, err)
	}
	spec := selection.Spec{IncludedNamespaces: backup.Spec.IncludedNamespaces, ExcludedNamespaces: backup.Spec.ExcludedNamespaces}
	if len(spec.IncludedNamespaces) == 0 {
		spec.IncludedNamespaces = []string{allNamespaces}
	}
	if max(len(spec.IncludedNamespaces), len(spec.ExcludedNamespaces)) > maxNamespaces || len(selection.Validate(spec)) > 0 {
		return backupNamespaces{included: []string{allNamespaces}}, nil
	}
	return backupNamespaces{included: spec.IncludedNamespaces, excluded: spec.ExcludedNamespaces}, nil
}

// readListedNamespaces reads the list of what is in the archive. The error is errUnusableList if
// reading it again would not help.
func readListedNamespaces(ctx context.Context, store *backupstore.Store, name string) (names []string, err error) {
	file, err := store.GetFile(ctx, name, backupstore.ResourceList)
	if errors.Is(err, objectstore.ErrNotExist) {
		return nil, errUnusableList
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	from := &errorRecordingReader{Reader: file}
	plain, err := gzip.NewReader(from)
	if err == nil {
		names, err = parseListedNamespaces(io.LimitReader(plain, maxListBytes))
	}
	if err != nil && from.err != nil {
		return nil, fmt.Errorf("reading which namespaces backup %q has: %w", name, from.err)
	}
	if err != nil {
		return nil, errUnusableList
	}
	return names, nil
}

// parseListedNamespaces returns the namespaces of which a list of resources names an object, sorted. It
// reads piece by piece: such a list may name a million objects.
func parseListedNamespaces(list io.Reader) ([]string, error) {
	pieces := &tokenLimitReader{Reader: list}
	decoder, found := json.NewDecoder(pieces), map[string]bool{}
	for depth := 0; ; {
		pieces.remaining = maxTokenBytes
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		switch value := token.(type) {
		case json.Delim:
			if value == '{' || value == '[' {
				depth++
				continue
			}
			if depth--; depth == 0 {
				return sortedNamespaces(found), nil
			}
		case string:
			if depth < 2 {
				continue // a kind
			}
			if addObjectNamespace(found, value); len(found) > maxNamespaces {
				return nil, errUnusableList
			}
		}
	}
}

// addObjectNamespace notes the namespace of an object of a list, "namespace/name" or "name".
func addObjectNamespace(found map[string]bool, object string) {
	namespace, _, namespaced := strings.Cut(object, "/")
	if namespaced && !found[namespace] && len(validation.IsDNS1123Label(namespace)) == 0 {
		found[strings.Clone(namespace)] = true
	}
}

// tokenLimitReader ends with an error where one piece would be longer than what is left for it.
type tokenLimitReader struct {
	io.Reader
	remaining int
}

// Read implements io.Reader.
func (p *tokenLimitReader) Read(b []byte) (int, error) {
	if p.remaining <= 0 {
		return 0, errUnusableList
	}
	n, err := p.Reader.Read(b[:min(len(b), p.remaining)])
	p.remaining -= n
	return n, err
}

func sortedNamespaces(found map[string]bool) []string {
	if len(found) == 0 {
		return []string{noNamespace}
	}
	return slices.Sorted(maps.Keys(found))
}

// errorRecordingReader remembers why a file could not be read, which is not the fault of what it says.
type errorRecordingReader struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (w *errorRecordingReader) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}
