// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// rules are what is shipped.
type rules struct {
	argo map[string]string
	flux map[string]expressions
}

// ask returns what both tools say of an object.
func (r rules) ask(t *testing.T, kind string, object map[string]any) (health, string) {
	t.Helper()
	object["kind"] = kind
	said := askArgoCD(t, r.argo[kind], object)
	return health{argo: said.status, flux: askFlux(t, r.flux[kind], object)}, said.message
}

// TestRules_AllPhases asks about objects in each phase that a CRD lists.
func TestRules_AllPhases(t *testing.T) {
	shipped, all := rules{scripts(t), fluxRules(t)}, samples()
	for kind, phases := range phases(t) {
		seen := map[string]bool{}
		for name, of := range all[kind] {
			object := plain(t, of.object)
			phase, _, _ := unstructured.NestedString(object, "status", "phase")
			seen[phase] = true
			if len(phases) > 0 && phase != "" && !slices.Contains(phases, phase) {
				t.Errorf("%s has no phase %s", kind, phase)
			}
			t.Run(kind+" "+name, func(t *testing.T) {
				got, message := shipped.ask(t, kind, object)
				if got != of.want {
					t.Errorf("in phase %q it is %v, want %v", phase, got, of.want)
				}
				if message == "" || !strings.Contains(message, of.says) {
					t.Errorf("Argo CD shows %q, want it to say %q", message, of.says)
				}
			})
		}
		for _, phase := range phases {
			if !seen[phase] {
				t.Errorf("no sample is a %s in phase %s: add it to objects_test.go, and see that the rules fit", kind, phase)
			}
		}
		if len(all[kind]) == 0 {
			t.Errorf("there are no samples of %s", kind)
		}
	}
}

// unread is an object that Flux cannot evaluate the expressions on: it waits then, too.
var unread = health{progressing.argo, fluxUnknown}

// TestRules_AllKinds changes an object that is well, and one that is not, in ways that
// mean the same for every kind.
func TestRules_AllKinds(t *testing.T) {
	cases := map[string]struct {
		change func(t *testing.T, object map[string]any)
		// healthy and degraded change objects with that health.
		healthy, degraded health
	}{
		"as it was": {func(*testing.T, map[string]any) {}, healthy, degraded},
		"just created": {func(_ *testing.T, o map[string]any) {
			delete(o, "status")
		}, unread, unread},
		"with an empty status": {func(_ *testing.T, o map[string]any) {
			o["status"] = map[string]any{}
		}, progressing, progressing},
		"without conditions, whatever the phase says": {func(_ *testing.T, o map[string]any) {
			unstructured.RemoveNestedField(o, "status", "conditions")
		}, progressing, progressing},
		"with conditions of others only": {func(t *testing.T, o map[string]any) {
			set(t, o, []any{map[string]any{"type": "Theirs", "status": "True"}}, "status", "conditions")
		}, progressing, progressing},
		"being deleted": {func(t *testing.T, o map[string]any) {
			set(t, o, "2026-01-02T03:04:05Z", "metadata", "deletionTimestamp")
		}, progressing, progressing},
		"deleted before it was reconciled": {func(t *testing.T, o map[string]any) {
			delete(o, "status")
			set(t, o, "2026-01-02T03:04:05Z", "metadata", "deletionTimestamp")
		}, progressing, progressing},
		"in a phase of a later version": {func(t *testing.T, o map[string]any) {
			set(t, o, "Gilded", "status", "phase")
		}, healthy, degraded},
		"worked on": {func(t *testing.T, o map[string]any) {
			condition(t, o, "Reconciling")["status"] = "True"
		}, progressing, progressing},
		"neither ready nor stuck": {func(t *testing.T, o map[string]any) {
			condition(t, o, "Ready")["status"] = "Unknown"
			condition(t, o, "Stalled")["status"] = "Unknown"
		}, progressing, progressing},
	}
	shipped := rules{scripts(t), fluxRules(t)}
	for name, tc := range cases {
		for kind := range phases(t) {
			t.Run(kind+" "+name, func(t *testing.T) {
				for was, want := range map[health]health{healthy: tc.healthy, degraded: tc.degraded} {
					object := firstThatIs(t, kind, was)
					tc.change(t, object)
					if got, message := shipped.ask(t, kind, object); got != want || message == "" {
						t.Errorf("it was %v and is %v with the message %q, want %v", was, got, message, want)
					}
				}
			})
		}
	}
}

// TestRules_OutdatedStatus asks about objects whose status is not about their spec.
func TestRules_OutdatedStatus(t *testing.T) {
	older := map[string]func(t *testing.T, object map[string]any){
		"the spec was changed": func(t *testing.T, o map[string]any) { set(t, o, int64(4), "metadata", "generation") },
		"it does not tell what it is about": func(t *testing.T, o map[string]any) {
			unstructured.RemoveNestedField(o, "status", "observedGeneration")
		},
	}
	shipped := rules{scripts(t), fluxRules(t)}
	for name, change := range older {
		for kind := range phases(t) {
			for _, was := range []health{healthy, degraded} {
				object := firstThatIs(t, kind, was)
				change(t, object)
				if got, _ := shipped.ask(t, kind, object); got != progressing {
					t.Errorf("%s: a %s that was %v is %v, want %v", name, kind, was, got, progressing)
				}
			}
		}
		told := plain(t, samples()["Backup"]["imported, and nowhere to be found"].object)
		change(t, told)
		if got, _ := shipped.ask(t, "Backup", told); got != progressing {
			t.Errorf("%s: a Backup to be imported is %v, want %v", name, got, progressing)
		}
	}
}

// firstThatIs returns the sample of a kind that is well or not, the first by name.
func firstThatIs(t *testing.T, kind string, want health) map[string]any {
	t.Helper()
	of, first := samples()[kind], ""
	for name, s := range of {
		if s.want == want && (first == "" || name < first) {
			first = name
		}
	}
	if first == "" {
		t.Fatalf("no sample of %s is %v", kind, want)
	}
	return plain(t, of[first].object)
}

// plain returns an object as tools read it.
func plain(t *testing.T, object any) map[string]any {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

func set(t *testing.T, object map[string]any, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(object, value, path...); err != nil {
		t.Fatal(err)
	}
}

func condition(t *testing.T, object map[string]any, name string) map[string]any {
	t.Helper()
	found := conditionOf(object, name)
	if found == nil {
		t.Fatalf("it has no condition %s", name)
	}
	return found
}

// conditionOf returns a condition, to be changed in place; nil if there is none.
func conditionOf(object map[string]any, name string) map[string]any {
	status, _ := object["status"].(map[string]any)
	list, _ := status["conditions"].([]any)
	for _, item := range list {
		if c, ok := item.(map[string]any); ok && c["type"] == name {
			return c
		}
	}
	return nil
}
