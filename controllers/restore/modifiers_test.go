// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
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
