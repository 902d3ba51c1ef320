// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/restore/version"
)

func TestLoadVersionPriorities(t *testing.T) {
	const where = "ConfigMap enableapigroupversions, restoreResourcesVersionPriority: "
	for name, tc := range map[string]struct {
		spec, config string
		want         version.Priorities
		warnings     []string
		errs         int
	}{
		"neither": {want: version.Priorities{}},
		"the spec wins": {
			spec: "a.x=v1", config: "a.x=v2\nb.x=v3", want: version.Priorities{"a.x": {"v1"}, "b.x": {"v3"}},
		},
		"a malformed line of the ConfigMap": {
			config: "a.x\nb.x=v3", want: version.Priorities{"b.x": {"v3"}},
			warnings: []string{where + `line 1, "a.x": there is no "=" in it; expected <resource>.<group>=<version>,<version>`},
		},
		"a duplicate line of the ConfigMap": {
			config: "b.x=v2\n\nb.x=v3", want: version.Priorities{"b.x": {"v3"}},
			warnings: []string{where + `line 3, "b.x=v3": line 1 is about the same resource; remove one of them`},
		},
		"a malformed line of the spec": {spec: "a.x", config: "b.x=v3", want: version.Priorities{"b.x": {"v3"}}, errs: 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, errs := prioritiesWith(t, tc.spec, tc.config)
			if diff := cmp.Diff(tc.want, got.all); diff != "" || len(errs) != tc.errs {
				t.Errorf("errors %q, priorities (-want +got):\n%s", errs, diff)
			}
			if diff := cmp.Diff(tc.warnings, got.warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLoadVersionPriorities_ManyLines has a ConfigMap with many invalid lines.
func TestLoadVersionPriorities_ManyLines(t *testing.T) {
	got, errs := prioritiesWith(t, "", strings.Repeat("x\n", 1000))
	if len(errs) > 0 || len(got.warnings) != maxLineWarnings+1 || !strings.Contains(got.warnings[maxLineWarnings], "980 more lines are ignored") {
		t.Errorf("%d warnings, the last is %q; errors %q", len(got.warnings), got.warnings[len(got.warnings)-1], errs)
	}
}

func prioritiesWith(t *testing.T, spec, config string) (versionPriorities, []string) {
	t.Helper()
	c := fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: prioritiesConfigMap}, Data: map[string]string{prioritiesKey: config},
	}).Build()
	r := &Reconciler{Dependencies: lifecycle.Dependencies{Client: c, Reader: c, Now: time.Now}, UseVersions: true}
	o := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "again"}, Spec: v1alpha1.RestoreSpec{APIVersionPriorities: spec}}
	got, errs, err := r.loadVersionPriorities(t.Context(), &scope{Object: o})
	if err != nil {
		t.Fatal(err)
	}
	return got, errs
}
