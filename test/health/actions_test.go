// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// argoActions are the actions of Argo CD for a kind.
type argoActions struct {
	Discovery   string `json:"discovery.lua"`
	Definitions []struct {
		Name   string `json:"name"`
		Script string `json:"action.lua"`
	} `json:"definitions"`
}

// actions returns the actions of each kind that has some.
func actions(t *testing.T) map[string]argoActions {
	t.Helper()
	byKind := map[string]argoActions{}
	for kind, setting := range argoSettings(t, "actions") {
		var of argoActions
		parse(t, setting, &of)
		byKind[kind] = of
	}
	return byKind
}

// listEnabled returns the names of the actions that Argo CD offers for an object, sorted. All others of
// the kind must be there, too, disabled: that is how users learn about them.
func (of argoActions) listEnabled(t *testing.T, object map[string]any) string {
	t.Helper()
	var enabled, found []string
	runLua(t, of.Discovery, object).ForEach(func(name, action lua.LValue) {
		found = append(found, name.String())
		if disabled := action.(*lua.LTable).RawGetString("disabled"); disabled == lua.LFalse {
			enabled = append(enabled, name.String())
		} else if disabled != lua.LTrue {
			t.Errorf("%s is neither enabled nor disabled: %v", name, disabled)
		}
	})
	for _, definition := range of.Definitions {
		if !slices.Contains(found, definition.Name) {
			t.Errorf("%s is never offered", definition.Name)
		}
	}
	if len(found) != len(of.Definitions) {
		t.Errorf("the actions %q are offered, and %d are defined", found, len(of.Definitions))
	}
	slices.Sort(enabled)
	return strings.Join(enabled, " ")
}

// TestActions_Enabled asks which actions Argo CD offers for an object, in every phase.
func TestActions_Enabled(t *testing.T) {
	shipped := actions(t)
	for kind, all := range samples() {
		for name, of := range all {
			t.Run(kind+" "+name, func(t *testing.T) {
				object := plain(t, of.object)
				if got := shipped[kind].listEnabledIfAny(t, object); got != of.actions {
					t.Errorf("the actions are %q, want %q", got, of.actions)
				}
				set(t, object, "2026-01-02T03:04:05Z", "metadata", "deletionTimestamp")
				if got := shipped[kind].listEnabledIfAny(t, object); got != "" {
					t.Errorf("the actions while it is deleted are %q", got)
				}
			})
		}
	}
	schemas := statusSchemas(t)
	for kind, want := range map[string]string{"Backup": "cancel", "Restore": "cancel", "Schedule": "pause run-now"} {
		object := map[string]any{"metadata": map[string]any{}, "spec": map[string]any{}, "status": schemas[kind]["default"]}
		if got := shipped[kind].listEnabled(t, object); got != want {
			t.Errorf("the actions of a %s that was just created are %q, want %q", kind, got, want)
		}
	}
}

// listEnabledIfAny is listEnabled for a kind that may have no actions.
func (of argoActions) listEnabledIfAny(t *testing.T, object map[string]any) string {
	t.Helper()
	if of.Discovery == "" {
		return ""
	}
	return of.listEnabled(t, object)
}

// TestActions_Patch runs every action, and compares the patch that Argo CD sends with that in testdata, which
// api/v1alpha1 sends to an API server.
func TestActions_Patch(t *testing.T) {
	var cases []struct {
		Kind, Action  string
		Object, Patch map[string]any
	}
	parse(t, read(t, "testdata/actions.yaml"), &cases)
	untested := map[string]string{}
	for kind, of := range actions(t) {
		for _, definition := range of.Definitions {
			untested[kind+" "+definition.Name] = definition.Script
		}
	}
	scripts := maps.Clone(untested)
	for _, tc := range cases {
		name := tc.Kind + " " + tc.Action
		delete(untested, name)
		t.Run(name, func(t *testing.T) {
			if tc.Object["metadata"] == nil {
				tc.Object["metadata"] = map[string]any{} // a live object has it
			}
			began := time.Now().Truncate(time.Second)
			result := goValue(runLua(t, scripts[name], tc.Object), tc.Object)
			got := newMergePatch(t, tc.Object, result)
			path := []string{"metadata", "annotations", v1alpha1.AnnotationRunRequestedAt}
			if value, found, _ := unstructured.NestedString(got, path...); found {
				if at, err := time.Parse(time.RFC3339, value); err != nil || at.Before(began) || at.After(time.Now()) {
					t.Errorf("the request is of %q, want the current time in RFC 3339 format (%v)", value, err)
				}
				set(t, got, "2026-01-02T03:04:05Z", path...)
			}
			if !reflect.DeepEqual(got, tc.Patch) {
				t.Errorf("the patch is %v, want %v", got, tc.Patch)
			}
		})
	}
	for name := range untested {
		t.Errorf("testdata/actions.yaml has no object for %s", name)
	}
}

// newMergePatch returns the patch that Argo CD sends for a changed object.
func newMergePatch(t *testing.T, before, after any) (patch map[string]any) {
	t.Helper()
	var encoded [2][]byte
	for i, object := range []any{before, after} {
		var err error
		if encoded[i], err = json.Marshal(object); err != nil {
			t.Fatal(err)
		}
	}
	change, err := jsonpatch.CreateMergePatch(encoded[0], encoded[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(change, &patch); err != nil {
		t.Fatal(err)
	}
	return patch
}
