// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Objects that the API server refuses", Label("restore"), func() {
	It("reports each refusal in the words of the API server", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 2)
		down := env.NewConfigMap(app, 2)
		down.Labels = map[string]string{labelDown: app}
		env.Create(t, world.Client, down)
		env.Create(t, world.Client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: "over"}})
		b := s.backUp(t, app, func(b *v1alpha1.Backup) {
			b.Spec.IncludedResources = []v1alpha1.NamePattern{"configmaps", "secrets"}
		})
		webhookThatIsDown(t, app)

		r, target := s.restoreOf(b.Name, app)
		env.Create(t, world.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: target}})
		noSecrets(t, target)
		fixed, yes := env.NewConfigMap(target, 1), true
		fixed.Immutable, fixed.Data["n"] = &yes, "fixed"
		env.Create(t, world.Client, fixed)
		r.Spec.ExistingResourcePolicy = v1alpha1.ExistingResourcePolicyUpdate
		r = outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhasePartiallyFailed, "1 created", "3 failed; 3 errors, the first: ", "restore again")
		env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0", "c1=fixed"})
		results := s.results(t, r)
		for _, text := range []string{
			"exceeded quota: none", "raise the quota of the namespace and restore again",
			"field is immutable when `immutable` is set", "existingResourcePolicy recreate replaces it",
			"failed calling webhook \\\"down.test.grapnel.dev\\\"", "fix it, or remove its configuration, and restore again",
		} {
			says(t, results, text)
		}
	})

	// Without a controller manager, the namespace is gone when the spec says so.
	It("waits for a namespace that is being deleted", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 2)
		b := s.backUp(t, app)
		r, target := s.restoreOf(b.Name, app)
		namespace := env.Create(t, world.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: target}})
		world.Delete(t, namespace)
		r = env.WaitFor(t, world.Client, env.Create(t, world.Client, r), "it restores", func(r *v1alpha1.Restore) bool { return r.Status.Attempts == 1 })
		if r.Status.CompletionTimestamp != nil {
			t.Fatalf("it did not wait: %s", r.Status.Message)
		}
		namespace = there(t, "", target, namespace)
		old := namespace.UID
		namespace.Spec.Finalizers = nil
		Expect(world.Client.SubResource("finalize").Update(t.Context(), namespace)).To(Succeed())
		outcome(t, r, v1alpha1.RunPhaseCompleted, "3 created")
		env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0", "c1=1"})
		if there(t, "", target, namespace).UID == old {
			t.Error("the old namespace is still there")
		}
	})

	// As when buckets are synchronized. The location is read for each Restore, right before it
	// begins.
	It("finds a backup that arrives after the request", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t)} // which restores one thing at a time
		app := gatedApp(t, 1)
		other, b := s.backUp(t, app), s.backUp(t, app)
		world.Delete(t, b)
		world.WaitForDeletion(t, b)
		stored := filepath.Join(s.LocationDir(env.DefaultLocation), "backups", b.Name)
		elsewhere := filepath.Join(t.TempDir(), b.Name)
		move(t, stored, elsewhere)
		r, target := s.restoreOf(b.Name, app)
		outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseFailedValidation, "has no finished backup", "for example to one of: "+other.Name)
		untouched(t, target)

		gate := newGate(t, app)
		first, _ := s.restoreOf(other.Name, app)
		env.Create(t, world.Client, first)
		gate.await(t)
		r, target = s.restoreOf(b.Name, app)
		env.WaitFor(t, world.Client, env.Create(t, world.Client, r), "it waits", func(r *v1alpha1.Restore) bool {
			return reasonOf(r, v1alpha1.ConditionSucceeded) == v1alpha1.ReasonQueued
		})
		move(t, elsewhere, stored)
		gate.open()
		outcome(t, r, v1alpha1.RunPhaseCompleted, "3 created")
		env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0", "c1=1"})
		outcome(t, first, v1alpha1.RunPhaseCompleted, "3 created")
	})
})

// labelDown is on the ConfigMaps whose creation needs a webhook that is down.
const labelDown = "test.grapnel.dev/down"

// webhookThatIsDown registers one for the ConfigMaps with a value of that label, until
// the test ends, and waits until it is called.
func webhookThatIsDown(t testing.TB, value string) {
	t.Helper()
	fail, none, url := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, "https://127.0.0.1:1/"
	webhook := env.Create(t, world.Client, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "down-"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "down.test.grapnel.dev", FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig:   admissionregistrationv1.WebhookClientConfig{URL: &url},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{labelDown: value}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	})
	t.Cleanup(func() {
		if err := world.Client.Delete(context.WithoutCancel(t.Context()), webhook); err != nil {
			t.Error(err)
		}
	})
	awaitRefusal(t, "the webhook", func() client.Object {
		probe := env.NewConfigMap(value, 99)
		probe.Labels = map[string]string{labelDown: value}
		return probe
	})
}

// noSecrets gives a namespace a quota that has no room for a Secret. Without a
// controller manager it counts when its status says so.
func noSecrets(t testing.TB, namespace string) {
	t.Helper()
	hard := corev1.ResourceList{corev1.ResourceSecrets: resource.MustParse("0")}
	quota := env.Create(t, world.Client, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: hard},
	})
	quota.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: hard}
	Expect(world.Client.Status().Update(t.Context(), quota)).To(Succeed())
	awaitRefusal(t, "the quota", func() client.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"}}
	})
}

// awaitRefusal waits until an object cannot be created.
func awaitRefusal(t testing.TB, what string, object func() client.Object) {
	t.Helper()
	suite.Eventually(t, func() string {
		if err := world.Client.Create(t.Context(), object(), client.DryRunAll); err != nil {
			return ""
		}
		return what + " refuses nothing"
	})
}

// move moves a directory.
func move(t testing.TB, from, to string) {
	t.Helper()
	Expect(os.MkdirAll(filepath.Dir(to), 0o755)).To(Succeed())
	Expect(os.Rename(from, to)).To(Succeed())
}
