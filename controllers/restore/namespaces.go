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

	"github.com/grapnel-dev/grapnel/internal/selection"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

const (
	// maxNamespaces is how many namespaces the status can hold.
	maxNamespaces = 4096
	// maxListBytes is the maximum uncompressed size of the list of what is in an archive, and
	// maxTokenBytes that of one name in it. The bucket is not trusted.
	maxListBytes, maxTokenBytes = 1 << 30, 1 << 20
	// allNamespaces stands for all namespaces, and noNamespace for none, as in a spec.
	allNamespaces, noNamespace = "*", ""
)

// errUnusableList means that the list of a backup does not show which namespaces it has.
var errUnusableList = errors.New("the list of what is in the archive is missing or unusable")

// backupNamespaces are namespaces, as names in the backup or as globs.
type backupNamespaces struct{ included, excluded []string }

// readBackupNamespaces returns which namespaces a backup has, for the actions of the Restore.
// These are the namespaces of the objects in the list of its archive, which Velero stores as
// well. The Namespace objects do not count: they are archived for their labels, too. If the list
// is missing or cannot be read, the result is the namespaces that the backup was to include.
// Data from the bucket is validated: an invalid entry would fail every call.
func readBackupNamespaces(ctx context.Context, store *storage.Store, name string) (backupNamespaces, error) {
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
// a retry would not help.
func readListedNamespaces(ctx context.Context, store *storage.Store, name string) (names []string, err error) {
	file, err := store.GetFile(ctx, name, storage.ResourceList)
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

// parseListedNamespaces returns the namespaces of the objects in a resource list, sorted. It
// reads token by token, because a list may name a million objects.
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

// addObjectNamespace adds the namespace of an object in a list, "namespace/name" or "name".
func addObjectNamespace(found map[string]bool, object string) {
	namespace, _, namespaced := strings.Cut(object, "/")
	if namespaced && !found[namespace] && len(validation.IsDNS1123Label(namespace)) == 0 {
		found[strings.Clone(namespace)] = true
	}
}

// tokenLimitReader returns an error when a token is longer than the remaining limit.
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

// errorRecordingReader records read errors of a file, which say nothing about its content.
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
