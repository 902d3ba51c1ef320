// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"compress/gzip"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

const annotationRestored = "grapnel.dev/restored"

var _ = Describe("A Restore into the namespace of a hostile tenant", func() {
	DescribeTable("treats an object with a false stamp as one that exists",
		func(word string, policy v1alpha1.ExistingResourcePolicy, outcome, port string) {
			t := GinkgoTB()
			s := world.StartOperator(t)
			app := world.CreateApp(t, 1)
			env.Create(t, world.Client, newService(app, 80))
			b := s.NewBackup(app)
			b.Spec.IncludedResources = []v1alpha1.NamePattern{"configmaps", "services"}
			env.Create(t, world.Client, b)
			env.WaitFor(t, world.Client, b, "it has completed", func(b *v1alpha1.Backup) bool {
				return b.Status.Phase == v1alpha1.RunPhaseCompleted
			})

			By("holding the Restore before the wave of Services")
			target := "to-" + app
			gate := newConfigMapGate(target)
			r := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "hostile-"}}
			r.Spec.BackupName, r.Spec.ExistingResourcePolicy = b.Name, policy
			r.Spec.NamespaceMapping = map[string]v1alpha1.NamespaceName{app: v1alpha1.NamespaceName(target)}
			r = env.Create(t, world.Client, r)
			Eventually(gate.reached).Should(BeClosed())

			By("creating a Service as a tenant does that reads the UID on the first restored object")
			namespace := env.WaitFor(t, world.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: target}}, "it is stamped",
				func(n *corev1.Namespace) bool { return n.Annotations[annotationRestored] != "" })
			uid := strings.Fields(namespace.Annotations[annotationRestored])[1]
			Expect(uid).To(Equal(string(r.UID)))
			claimed := newService(target, 81)
			claimed.Annotations = map[string]string{annotationRestored: word + " " + uid}
			env.Create(t, world.Client, claimed)
			gate.open()

			By("waiting for the end of the Restore")
			r = env.WaitFor(t, world.Client, r, "it has ended and owes nothing", func(r *v1alpha1.Restore) bool { return lifecycle.IsFinalized(r) })
			Expect(r.Status.Phase).To(Equal(v1alpha1.RunPhaseCompleted), r.Status.Message)
			Expect(r.Status.Attempts).To(Equal(int32(1)), "the operator was restarted")
			Expect(s.Operator.Done()).NotTo(BeClosed(), "the operator has ended")
			var list map[string][]string
			Expect(json.Unmarshal([]byte(readStored(s, r.Status.Files.ResourceList)), &list)).To(Succeed())
			Expect(list["v1/Service"]).To(ConsistOf(target + "/web(" + outcome + ")"))
			Expect(readStored(s, r.Status.Files.Results)).To(ContainSubstring(
				`services \"` + target + `/web\": its annotation grapnel.dev/restored names this restore, which did not set it`))
			env.WaitFor(t, world.Client, claimed, "it has the port "+port, func(s *corev1.Service) bool { return s.Spec.Ports[0].Name == port })
		},
		Entry("with a word that is no outcome", "boom", v1alpha1.ExistingResourcePolicyNone, "skipped", "p81"),
		Entry("with an outcome", "created", v1alpha1.ExistingResourcePolicyUpdate, "updated", "p80"),
	)
})

func newService(namespace string, port int32) *corev1.Service {
	name := map[int32]string{80: "p80", 81: "p81"}[port]
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: name, Port: port}}},
	}
}

// configMapGate is an admission webhook that holds requests for ConfigMaps until it is
// opened.
type configMapGate struct {
	reached, opened chan struct{}
	reach, open     func()
}

// newConfigMapGate holds the ConfigMaps of a namespace; it opens at the end of the spec.
func newConfigMapGate(namespace string) *configMapGate {
	g := &configMapGate{reached: make(chan struct{}), opened: make(chan struct{})}
	g.reach = sync.OnceFunc(func() { close(g.reached) })
	g.open = sync.OnceFunc(func() { close(g.opened) })
	server := httptest.NewTLSServer(g)
	DeferCleanup(server.Close)
	DeferCleanup(g.open) // before the server waits for its requests
	fail, none, timeout := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, int32(30)
	hook := env.Create(GinkgoTB(), world.Client, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "gate-" + namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "gate.test.grapnel.dev", FailurePolicy: &fail, SideEffects: &none, TimeoutSeconds: &timeout,
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	})
	DeferCleanup(func(ctx SpecContext) { Expect(world.Client.Delete(ctx, hook)).To(Succeed()) })
	return g
}

// ServeHTTP admits everything, when the gate is open.
func (g *configMapGate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// Only what the Restore creates stands for its wave; controllers create some as well.
	if strings.Contains(string(review.Request.Object.Raw), annotationRestored) {
		g.reach()
		select {
		case <-g.opened:
		case <-r.Context().Done():
			return
		}
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	_ = json.NewEncoder(w).Encode(review) // the API server may have gone
}

// readStored returns a stored file, uncompressed.
func readStored(s *env.Namespace, key string) string {
	file, err := os.Open(filepath.Join(s.LocationDir(env.DefaultLocation), filepath.FromSlash(key)))
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = file.Close() }() // it was only read
	plain, err := gzip.NewReader(file)
	Expect(err).NotTo(HaveOccurred())
	data, err := io.ReadAll(plain)
	Expect(err).NotTo(HaveOccurred())
	return string(data)
}
