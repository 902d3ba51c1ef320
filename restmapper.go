// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// newRESTMapper returns a mapper for a manager.
func newRESTMapper(config *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	mapper, err := apiutil.NewDynamicRESTMapper(config, client)
	if err != nil {
		return nil, fmt.Errorf("discovering the kinds of the API server: %w", err)
	}
	return newCachingMapper(mapper), nil
}

// newCachingMapper returns a mapper that queries another mapper only once for each version of a
// kind of Grapnel. The definitions are installed before the operator, and their scope cannot
// change. It is safe for concurrent use if the other mapper is.
func newCachingMapper(mapper meta.RESTMapper) meta.RESTMapper {
	return &cachingMapper{RESTMapper: mapper}
}

// cachingMapper caches the RESTMappings of Grapnel's own kinds. The cache of controller-runtime
// requests one with each Get, and the default mapper needs more time for that than the cache for the
// object: it iterates over all groups and allocates new lists.
type cachingMapper struct {
	meta.RESTMapper
	// mappings maps a kind and its versions, as a string, to a *meta.RESTMapping.
	mappings sync.Map
}

// RESTMapping implements meta.RESTMapper.
func (r *cachingMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if kind.Group != v1alpha1.GroupVersion.Group {
		return r.RESTMapper.RESTMapping(kind, versions...)
	}
	key := kind.Kind + "/" + strings.Join(versions, ",")
	if known, ok := r.mappings.Load(key); ok {
		return known.(*meta.RESTMapping), nil //nolint:forcetypeassert // nothing else is stored
	}
	found, err := r.RESTMapper.RESTMapping(kind, versions...)
	if err == nil {
		r.mappings.Store(key, found)
	}
	return found, err
}
