// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupimport

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

const (
	// maxMetadataBytes limits the labels and the annotations of an object, each, and
	// maxSpecBytes its spec without the fields that Grapnel adds, which take less than 1 KiB.
	// In total, foreign content has at most 8 KiB.
	maxMetadataBytes = 2 << 10
	maxSpecBytes     = 3 << 10
)

// AbridgeBackup removes labels, annotations and fields of the spec of an imported Backup until
// it is within the limits, largest fields first, and records that in an annotation. A user who can
// write to a bucket must not be able to fill etcd and the memory of the operator. Nothing in the
// cluster needs the removed fields: Restores and DeletionRuns read the manifest.
func AbridgeBackup(b *v1alpha1.Backup) error {
	var left []string
	if n := trimToBudget(b.Labels, maxMetadataBytes); n > 0 {
		left = append(left, fmt.Sprintf("%d labels", n))
	}
	if n := trimToBudget(b.Annotations, maxMetadataBytes); n > 0 {
		left = append(left, fmt.Sprintf("%d annotations", n))
	}
	fields, err := abridgeSpec(&b.Spec)
	if err != nil {
		return err
	}
	if left = append(left, fields...); len(left) == 0 {
		return nil
	}
	if b.Annotations == nil {
		b.Annotations = map[string]string{}
	}
	b.Annotations[v1alpha1.AnnotationAbridged] = "omitted, see the manifest: " + strings.Join(left, ", ")
	return nil
}

// trimToBudget keeps the entries that fit, in the order of their keys, and returns how many it
// removed.
func trimToBudget(values map[string]string, budget int) (removed int) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		encoded, err := json.Marshal(values[key]) // which may be six times as long
		size := len(key) + len(encoded)
		if err != nil || size > budget {
			delete(values, key)
			removed++
			continue
		}
		budget -= size
	}
	return removed
}

// abridgeSpec removes the largest fields until the others fit, and returns their names and
// sizes.
func abridgeSpec(spec *v1alpha1.BackupSpec) (left []string, err error) {
	whole, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encoding the spec: %w", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(whole, &fields); err != nil {
		return nil, fmt.Errorf("decoding the spec: %w", err)
	}
	own := map[string]json.RawMessage{}
	for _, name := range []string{"importedFrom", "storageLocation", "deletionPolicy"} {
		if value, set := fields[name]; set {
			own[name] = value
			delete(fields, name)
		}
	}
	total := 0
	for name, value := range fields {
		total += len(name) + len(value)
	}
	if total <= maxSpecBytes {
		return nil, nil
	}
	bySize := slices.SortedFunc(maps.Keys(fields), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(fields[b]), len(fields[a])), strings.Compare(a, b))
	})
	for _, name := range bySize {
		if total <= maxSpecBytes {
			break
		}
		left = append(left, fmt.Sprintf("spec.%s (%d bytes)", name, len(fields[name])))
		total -= len(name) + len(fields[name])
		delete(fields, name)
	}
	maps.Copy(fields, own)
	kept, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encoding the abridged spec: %w", err)
	}
	*spec = v1alpha1.BackupSpec{}
	if err := json.Unmarshal(kept, spec); err != nil {
		return nil, fmt.Errorf("decoding the abridged spec: %w", err)
	}
	return left, nil
}
