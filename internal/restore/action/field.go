// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Get returns the value at a path, and the zero value if there is none of this type: objects come
// from archives that anyone may have written. Maps and slices are those of the object itself.
func Get[T any](root map[string]any, path ...string) T {
	value, _, err := unstructured.NestedFieldNoCopy(root, path...)
	typed, ok := value.(T)
	if err != nil || !ok {
		return *new(T)
	}
	return typed
}

// GetMap returns the object at a path, or nil. It may be changed if it is not nil.
func GetMap(root map[string]any, path ...string) map[string]any {
	return Get[map[string]any](root, path...)
}

// EachMap iterates over the objects in the list at a path. They may be changed.
func EachMap(root map[string]any, path ...string) iter.Seq[map[string]any] {
	return func(yield func(map[string]any) bool) {
		for _, value := range Get[[]any](root, path...) {
			if entry, ok := value.(map[string]any); ok && !yield(entry) {
				return
			}
		}
	}
}

// Has reports whether there is anything at a path, null included.
func Has(root map[string]any, path ...string) bool {
	_, found, err := unstructured.NestedFieldNoCopy(root, path...)
	return err == nil && found
}

// GetInt returns the whole number at a path, for any number type of a JSON decoder, and 0
// if there is none.
func GetInt(root map[string]any, path ...string) int64 {
	switch value := Get[any](root, path...).(type) {
	case int64:
		return value
	case float64:
		return int64(value)
	default:
		return 0
	}
}

// RemoveKeys removes keys from the object at a path, and then the object itself if it is
// empty.
func RemoveKeys(root map[string]any, path []string, keys ...string) {
	fields := GetMap(root, path...)
	if fields == nil {
		return
	}
	for _, key := range keys {
		delete(fields, key)
	}
	if len(fields) == 0 {
		unstructured.RemoveNestedField(root, path...)
	}
}

// RemoveEntries removes the entries for which drop returns true from the list at a path,
// and then the list itself if it is empty.
func RemoveEntries(root map[string]any, drop func(entry any) bool, path ...string) {
	parent := GetMap(root, path[:len(path)-1]...)
	list, ok := parent[path[len(path)-1]].([]any)
	if !ok {
		return
	}
	kept := slices.DeleteFunc(list, drop)
	if len(kept) == 0 {
		delete(parent, path[len(path)-1])
		return
	}
	parent[path[len(path)-1]] = kept
}
