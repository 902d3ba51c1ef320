// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// admin returns a client that knows all kinds.
func admin(t testing.TB) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(plane.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var _ = Describe("The rights to quiesce workloads", Label("hooks"), func() {
	It("suffice, and an error names missing ones", func() {
		t := GinkgoTB()
		w := newWorld(t)
		w.shop()
		before := w.workloads(w.ns)
		all := admin(t)
		cfg, err := plane.AddUser("quiescer")
		if err != nil {
			t.Fatal(err)
		}
		c, err := newClient(cfg)
		if err != nil {
			t.Fatal(err)
		}
		limited := quiesce.New(c, quiesce.Options{})
		_, failed := w.failed(limited.Quiesce, w.request("a"))
		if failed.Kind != executor.Failed {
			t.Errorf("without rights it is %s", failed.Kind)
		}
		says(t, failed.Text, "namespace "+w.ns, "HorizontalPodAutoscalers", "forbidden")

		verbs := []string{"get", "list", "patch"}
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "quiescer"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"apps"}, Resources: []string{"daemonsets", "deployments", "replicasets", "statefulsets"}, Verbs: verbs},
			{APIGroups: []string{"batch"}, Resources: []string{"cronjobs", "jobs"}, Verbs: verbs},
			{APIGroups: []string{"autoscaling"}, Resources: []string{"horizontalpodautoscalers"}, Verbs: []string{"list"}},
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
		}}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "quiescer"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "quiescer"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "quiescer"}},
		}
		for _, o := range []client.Object{role, binding} {
			if err := all.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		suite.Eventually(t, func() string { // the API server observes roles through a watch
			if _, err := limited.Quiesce(t.Context(), w.request("a")); err != nil {
				return err.Error()
			}
			return ""
		})
		w.done(limited.Quiesce, w.request("a"))
		w.awaitPods("", 0)
		w.done(limited.Unquiesce, w.request("a"))
		w.same(before)
	})

	It("name workloads that a policy protects", func() {
		t := GinkgoTB()
		w := newWorld(t)
		locked := deployment("locked", 2)
		w.made(locked, deployment("web", 3))
		all := admin(t)
		equivalent := admissionv1.Equivalent
		policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "locked"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				MatchPolicy:       &equivalent,
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": w.ns}},
				ObjectSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{"app": "locked"}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
				}}},
			},
			Validations: []admissionv1.Validation{{Expression: "object.spec.replicas == oldObject.spec.replicas", Message: "it has to run, password=hunter2"}},
		}}
		binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "locked"}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "locked", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		}}
		for _, o := range []client.Object{policy, binding} {
			if err := all.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		suite.Eventually(t, func() string {
			d := locked.DeepCopy()
			if w.Patch(t.Context(), d, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":1}}`)), client.DryRunAll) == nil {
				return "the policy is not in force yet"
			}
			return ""
		})
		result, failed := w.failed(w.Quiesce, w.request("a"))
		if failed.Kind != executor.Failed || outcome(result, quiesce.Deployment, "locked") != quiesce.Failed || outcome(result, quiesce.Deployment, "web") != quiesce.Quiesced {
			t.Errorf("error is %v, items are %v", failed, result.Items)
		}
		says(t, failed.Text, "Deployment "+w.ns+"/locked could not be read or written", "it has to run", "[REDACTED]")
		w.done(w.Unquiesce, w.request("a"))
		w.awaitPods("web", 3)
		w.awaitPods("locked", 2)
	})
})
