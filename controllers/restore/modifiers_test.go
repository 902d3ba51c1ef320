// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
)

func TestLoadResourceModifiers(t *testing.T) {
	const rules = "version: v1\nresourceModifierRules:\n- conditions: {groupResource: pods}\n  mergePatches: [{patchData: 'spec: {a: b}'}]\n"
	for name, tc := range map[string]struct {
		config string
		data   map[string]string
		want   []string
	}{
		"valid":   {config: "rules", data: map[string]string{"a": rules}},
		"missing": {config: "other", want: []string{"spec.resourceModifier: ConfigMap rules does not exist in namespace here; create it, and then a new Restore"}},
		"invalid": {config: "rules", data: map[string]string{"a": rules + "- conditions: {groupResource: pods}\n"}, want: []string{
			"spec.resourceModifier: ConfigMap rules: rule 2: it needs exactly one of patches, mergePatches and strategicPatches, and has 0; split the rule or add a patch",
		}},
		"empty": {config: "rules", want: []string{"spec.resourceModifier: ConfigMap rules: it has 0 keys; put all rules into one"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: tc.config}, Data: tc.data}).Build()
			r := &Reconciler{Dependencies: lifecycle.Dependencies{Reader: c}}
			got, errs, err := r.loadResourceModifiers(t.Context(), "here", &v1alpha1.ConfigMapReference{Name: "rules"})
			if err != nil || !slices.Equal(errs, tc.want) || (got == nil) != (len(tc.want) > 0) {
				t.Errorf("rules %v, errors %q, error %v, want errors %q", got, errs, err, tc.want)
			}
		})
	}
	if got, errs, err := (&Reconciler{}).loadResourceModifiers(t.Context(), "here", nil); got != nil || errs != nil || err != nil {
		t.Errorf("without a reference: %v, %v, %v", got, errs, err)
	}
}

// TestLoadConfiguredChanges uses ConfigMaps as Velero's documentation has them.
func TestLoadConfiguredChanges(t *testing.T) {
	newConfig := func(name, action string, data map[string]string) client.Object {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: name, Labels: map[string]string{"velero.io/plugin-config": "", action: "RestoreItemAction"}}, Data: data,
		}
	}
	const classes, images = "velero.io/change-storage-class", "velero.io/change-image-name"
	elsewhere := newConfig("elsewhere", classes, map[string]string{"slow": "fast"})
	elsewhere.SetNamespace("there")
	unlabeled := newConfig("unlabeled", classes, map[string]string{"slow": "fast"})
	unlabeled.SetLabels(map[string]string{classes: "RestoreItemAction"})
	for name, tc := range map[string]struct {
		configs  []client.Object
		want     configuredChanges
		warnings int
		errs     []string
	}{
		"none": {configs: []client.Object{elsewhere, unlabeled, newConfig("other", "velero.io/pod-volume-restore", map[string]string{"image": "x"})}},
		"both": {
			configs: []client.Object{
				newConfig("classes", classes, map[string]string{"slow": "fast\n", "a": "b"}),
				newConfig("images", images, map[string]string{"case2": "5000 , 3000", "case1": "1.1.1.1:5000,2.2.2.2:3000", "case3": "no comma", "case4": ",new", "case5": "old, ", "case6": "a,b,c"}),
			},
			want: configuredChanges{
				storageClasses: action.StorageClassChanges{ConfigMap: "classes", Names: map[string]string{"slow": "fast", "a": "b"}},
				images:         []action.ImageChange{{Old: "1.1.1.1:5000", New: "2.2.2.2:3000"}, {Old: "5000", New: "3000"}},
			},
			warnings: 4,
		},
		"two of a kind": {
			configs: []client.Object{newConfig("b", classes, map[string]string{"slow": "fast"}), newConfig("a", classes, nil)},
			errs:    []string{"the ConfigMaps a, b have the label velero.io/change-storage-class; remove it from all but one"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(tc.configs...).Build()
			got, errs, err := (&Reconciler{Dependencies: lifecycle.Dependencies{Reader: c}}).loadConfiguredChanges(t.Context(), "here")
			if err != nil || !slices.Equal(errs, tc.errs) || len(got.warnings) != tc.warnings {
				t.Errorf("errors %q, error %v, warnings %q", errs, err, got.warnings)
			}
			if len(tc.errs) > 0 {
				return
			}
			got.warnings = nil
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(configuredChanges{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}
