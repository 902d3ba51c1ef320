// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func tree() map[string]any {
	return map[string]any{
		"map":  map[string]any{"a": "x", "b": int64(7), "c": 7.0, "null": nil},
		"list": []any{map[string]any{"n": "1"}, "no", nil, map[string]any{"n": "2"}},
		"text": "text",
	}
}

func TestGet(t *testing.T) {
	if got := Get[string](tree(), "map", "a"); got != "x" {
		t.Errorf("a string: %q", got)
	}
	for name, path := range map[string][]string{
		"missing": {"map", "z"}, "another type": {"map", "b"}, "null": {"map", "null"},
		"below a string": {"text", "a"}, "below a list": {"list", "a"}, "below nothing": {"z", "a"},
	} {
		if got := Get[string](tree(), path...); got != "" {
			t.Errorf("%s: %q, want nothing", name, got)
		}
	}
	if GetMap(nil, "a") != nil || GetMap(tree(), "text") != nil {
		t.Error("there is a map where there is none")
	}
	if !Has(tree(), "map", "null") || Has(tree(), "map", "z") || Has(tree(), "text", "a") {
		t.Error("Has is wrong about what is there")
	}
	if GetInt(tree(), "map", "b") != 7 || GetInt(tree(), "map", "c") != 7 || GetInt(tree(), "text") != 0 {
		t.Error("Int depends on the decoder")
	}
}

func TestEachMap(t *testing.T) {
	var names []string
	for entry := range EachMap(tree(), "list") {
		names = append(names, Get[string](entry, "n"))
	}
	if !slices.Equal(names, []string{"1", "2"}) {
		t.Errorf("entries %v, want the objects only", names)
	}
	for range EachMap(tree(), "list") {
		break // must not panic
	}
}

func TestRemoveKeys(t *testing.T) {
	root := tree()
	RemoveKeys(root, []string{"map"}, "a", "b", "z")
	RemoveKeys(root, []string{"text"}, "a")
	RemoveKeys(root, []string{"z"}, "a")
	want := tree()
	want["map"] = map[string]any{"c": 7.0, "null": nil}
	if diff := cmp.Diff(want, root); diff != "" {
		t.Errorf("some keys (-want +got):\n%s", diff)
	}
	RemoveKeys(root, []string{"map"}, "c", "null")
	delete(want, "map")
	if diff := cmp.Diff(want, root); diff != "" {
		t.Errorf("the last keys (-want +got):\n%s", diff)
	}
}

func TestRemoveEntries(t *testing.T) {
	root := tree()
	RemoveEntries(root, func(entry any) bool { _, isMap := entry.(map[string]any); return !isMap }, "list")
	RemoveEntries(root, func(any) bool { return true }, "text")
	RemoveEntries(root, func(any) bool { return true }, "z", "a")
	want := tree()
	want["list"] = []any{map[string]any{"n": "1"}, map[string]any{"n": "2"}}
	if diff := cmp.Diff(want, root); diff != "" {
		t.Errorf("some entries (-want +got):\n%s", diff)
	}
	RemoveEntries(root, func(any) bool { return true }, "list")
	delete(want, "list")
	if diff := cmp.Diff(want, root); diff != "" {
		t.Errorf("all entries (-want +got):\n%s", diff)
	}
}
