// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// counting counts the calls it gets.
type counting struct {
	meta.RESTMapper
	asked int
	kinds map[schema.GroupKind]bool
}

func (c *counting) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	c.asked++
	if !c.kinds[kind] {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return &meta.RESTMapping{GroupVersionKind: kind.WithVersion(versions[0])}, nil
}

// TestNewCachingMapper maps kinds that exist, that do not exist, and that are not Grapnel's.
func TestNewCachingMapper(t *testing.T) {
	t.Parallel()
	own := v1alpha1.GroupVersion.WithKind("Backup").GroupKind()
	other := schema.GroupKind{Group: "example.io", Kind: "Backup"}
	asked := &counting{kinds: map[schema.GroupKind]bool{other: true}}
	mapper := newCachingMapper(asked)
	for _, step := range []struct {
		kind    schema.GroupKind
		version string
		served  bool // from now on
		asked   int
	}{
		{kind: own, version: "v1alpha1", asked: 1},
		{kind: own, version: "v1alpha1", served: true, asked: 2}, // errors are not cached
		{kind: own, version: "v1alpha1", served: true, asked: 2},
		{kind: own, version: "v1", served: true, asked: 3},
		{kind: own, version: "v1alpha1", served: true, asked: 3},
		{kind: other, version: "v1", served: true, asked: 4},
		{kind: other, version: "v1", served: true, asked: 5},
	} {
		asked.kinds[own] = step.served
		found, err := mapper.RESTMapping(step.kind, step.version)
		if (err == nil) != step.served || asked.asked != step.asked {
			t.Errorf("%+v: called %d times, error %v", step, asked.asked, err)
		}
		if err == nil && found.GroupVersionKind != step.kind.WithVersion(step.version) {
			t.Errorf("%+v: found %s", step, found.GroupVersionKind)
		}
	}
}
