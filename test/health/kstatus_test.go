// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// askKstatus returns what kstatus says of an object. Tools without rules for Grapnel use it.
func askKstatus(t *testing.T, kind string, object map[string]any) string {
	t.Helper()
	u := &unstructured.Unstructured{Object: object}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	result, err := status.Compute(u)
	if err != nil {
		t.Fatal(err)
	}
	return result.Status.String()
}

// TestKstatus compares the answers of kstatus with those of the rules for Flux: every object tells them by its
// conditions alone.
func TestKstatus(t *testing.T) {
	changes := map[string]struct {
		change func(o map[string]any)
		want   string
	}{
		"changed": {func(o map[string]any) { set(t, o, int64(4), "metadata", "generation") }, fluxInProgress},
		"being deleted": {
			func(o map[string]any) { set(t, o, "2026-01-02T03:04:05Z", "metadata", "deletionTimestamp") },
			status.TerminatingStatus.String(),
		},
	}
	schemas := statusSchemas(t)
	for kind, all := range samples() {
		created := map[string]any{"metadata": map[string]any{"generation": int64(1)}}
		if observed, found, _ := unstructured.NestedFloat64(schemas[kind], "default", "observedGeneration"); found {
			set(t, created, int64(observed), "status", "observedGeneration")
		}
		if got := askKstatus(t, kind, created); got != fluxInProgress {
			t.Errorf("a %s that was just created is %s, want %s", kind, got, fluxInProgress)
		}
		for name, of := range all {
			object := plain(t, of.object)
			if got := askKstatus(t, kind, object); got != of.want.flux {
				t.Errorf("%s %q is %s, want %s", kind, name, got, of.want.flux)
			}
			for what, tc := range changes {
				object := plain(t, of.object)
				tc.change(object)
				if got := askKstatus(t, kind, object); got != tc.want {
					t.Errorf("%s %q, %s: it is %s, want %s", kind, name, what, got, tc.want)
				}
			}
		}
	}
}
