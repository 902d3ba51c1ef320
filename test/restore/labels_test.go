// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"crypto/rand"
	"maps"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// labels installs a RestoreItemAction for Restores with its label, which it returns.
func labels(t testing.TB) (action string) {
	t.Helper()
	name := "labels-" + strings.ToLower(rand.Text()[:8])
	action = "own.example.io/" + name
	plugin := env.Create(t, world.Client, world.NewFaultPlugin(name, []v1alpha1.PluginAction{{
		Name: action, Kind: v1alpha1.ActionKindRestoreItem, Selector: env.SelectorForAction(name),
	}}))
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(world.Client.Delete(context.WithoutCancel(t.Context()), plugin)); err != nil {
			t.Error(err)
		}
	})
	world.WaitForPlugins(t, plugin)
	return action
}

// asking creates a ConfigMap whose restore asks for a label of the Backup.
func asking(t testing.TB, namespace, name, label string) {
	t.Helper()
	env.Create(t, world.Client, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Annotations: map[string]string{"fault.example.io/do": "label:" + label},
	}})
}

// labelsOf returns the labels of a Backup.
func labelsOf(t testing.TB, b *v1alpha1.Backup) map[string]string {
	t.Helper()
	Expect(world.Client.Get(t.Context(), client.ObjectKeyFromObject(b), b)).To(Succeed())
	return b.Labels
}

var _ = Describe("Labels requested by plugins", Label("restore"), func() {
	// It keeps its own labels, and gets none that is reserved or invalid.
	It("sets the requested labels on the Backup", func() {
		t := suite.Spec(GinkgoTB())
		s, app, action := site{world.SharedOperator(t)}, world.CreateApp(t, 0), labels(t)
		asking(t, app, "good", "example.io/restored=database")
		asking(t, app, "own", "taken=no")
		asking(t, app, "reserved", v1alpha1.LabelScheduleName+"=mine")
		asking(t, app, "invalid", "example.io/odd=not a value")
		b := s.backUp(t, app, func(b *v1alpha1.Backup) { b.Labels = map[string]string{"taken": "yes"} })
		r, _ := s.restoreOf(b.Name, app)
		r.Labels = env.LabelsForActions(action)
		r = outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseCompleted, "2 warnings")
		if got, want := labelsOf(t, b), map[string]string{"taken": "yes", "example.io/restored": "database"}; !maps.Equal(got, want) {
			t.Errorf("the labels of the Backup are %v, want %v", got, want)
		}
		for _, part := range []string{"the prefix grapnel.dev is reserved", "example.io/odd", "its value is not a valid label value"} {
			says(t, s.results(t, r), part)
		}
	})

	It("reports a refused label in an event", func() {
		t := suite.Spec(GinkgoTB())
		s, app, action := site{world.SharedOperator(t)}, world.CreateApp(t, 0), labels(t)
		key := "refused.example.io/" + strings.ToLower(rand.Text()[:8])
		asking(t, app, "refused", key+"=x")
		b := s.backUp(t, app)
		refuse(t, b, key)
		r, _ := s.restoreOf(b.Name, app)
		r.Labels = env.LabelsForActions(action)
		r = outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseCompleted)
		if got := labelsOf(t, b); got[key] != "" {
			t.Errorf("the labels are %v", got)
		}
		suite.Eventually(t, func() string {
			var events eventsv1.EventList
			if err := world.Client.List(t.Context(), &events, client.InNamespace(s.Name)); err != nil {
				return err.Error()
			}
			for _, e := range events.Items {
				if e.Regarding.UID == r.UID && e.Reason == v1alpha1.ReasonLabelsRefused && strings.Contains(e.Note, "this label is not allowed") {
					return ""
				}
			}
			return "no event says that the labels were refused"
		})
	})
})

// refuse has the API server refuse a label of Backups until the test ends.
func refuse(t testing.TB, b *v1alpha1.Backup, key string) {
	t.Helper()
	name := strings.ReplaceAll(key, "/", ".")
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	policy.Spec.MatchConstraints = &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Update},
			Rule: admissionv1.Rule{
				APIGroups: []string{v1alpha1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"backups"},
			},
		},
	}}}
	policy.Spec.Validations = []admissionv1.Validation{{
		Expression: "!('" + key + "' in object.metadata.?labels.orValue({}))", Message: "this label is not allowed",
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
	binding.Spec.PolicyName, binding.Spec.ValidationActions = name, []admissionv1.ValidationAction{admissionv1.Deny}
	for _, o := range []client.Object{policy, binding} {
		Expect(world.Client.Create(t.Context(), o)).To(Succeed())
		t.Cleanup(func() {
			if err := world.Client.Delete(context.WithoutCancel(t.Context()), o); err != nil {
				t.Error(err)
			}
		})
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+key+`":"x"}}}`))
	suite.Eventually(t, func() string {
		if err := world.Client.Patch(t.Context(), b.DeepCopy(), patch, client.DryRunAll); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			return "the policy has no effect yet"
		}
		return ""
	})
}
