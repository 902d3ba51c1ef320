// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

// labelGate is on the ConfigMaps whose creation a gate of that name holds.
const labelGate = "test.grapnel.dev/gate"

// refusing is the gate that lets nothing through when it is open.
const refusing = "refusing"

// gatekeeper is an admission webhook. It is safe for concurrent use.
type gatekeeper struct {
	server *httptest.Server
	mu     sync.Mutex
	gates  map[string]*gate
}

// gate holds what comes to it until it is opened.
type gate struct {
	name    string
	reached chan struct{}
	reach   func()
	opened  chan struct{}
	open    func()
	givenUp chan struct{}
	giveUp  func()
}

// newGatekeeper serves the webhook and registers it.
func newGatekeeper(ctx context.Context, c client.Client) (*gatekeeper, error) {
	k := &gatekeeper{gates: map[string]*gate{}}
	k.server = httptest.NewTLSServer(k)
	url, fail, none := k.server.URL, admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	timeout := int32(30)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.server.Certificate().Raw})
	return k, c.Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "gates"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "gates.test.grapnel.dev", FailurePolicy: &fail, SideEffects: &none, TimeoutSeconds: &timeout,
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: certificate},
			ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: labelGate, Operator: metav1.LabelSelectorOpExists},
			}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	})
}

func (k *gatekeeper) close() { k.server.Close() }

// newGate closes the gate of a name until it is opened, or the test ends.
func newGate(t testing.TB, name string) *gate {
	t.Helper()
	g := &gate{name: name, reached: make(chan struct{}), opened: make(chan struct{}), givenUp: make(chan struct{})}
	g.reach = sync.OnceFunc(func() { close(g.reached) })
	g.giveUp = sync.OnceFunc(func() { close(g.givenUp) })
	g.open = sync.OnceFunc(func() { close(g.opened) })
	t.Cleanup(func() {
		g.open()
		world.gates.mu.Lock()
		defer world.gates.mu.Unlock()
		delete(world.gates.gates, name)
	})
	world.gates.mu.Lock()
	defer world.gates.mu.Unlock()
	world.gates.gates[name] = g
	return g
}

// await waits until something stands before the gate.
func (g *gate) await(t testing.TB) {
	t.Helper()
	select {
	case <-g.reached:
	case <-t.Context().Done():
		t.Fatal("nothing came to the gate " + g.name)
	}
}

// awaitGivenUp waits until the API server has given up what stood before the gate, as whoever had
// sent it is gone: it cannot be carried out any more.
func (g *gate) awaitGivenUp(t testing.TB) {
	t.Helper()
	select {
	case <-g.givenUp:
	case <-time.After(time.Minute):
		t.Fatal("nothing was given up before the gate " + g.name)
	}
}

// ServeHTTP admits what has no gate, or whose gate is open.
func (k *gatekeeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	var object metav1.PartialObjectMetadata
	err := json.NewDecoder(r.Body).Decode(&review)
	if err == nil {
		err = json.Unmarshal(review.Request.Object.Raw, &object)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	k.mu.Lock()
	g := k.gates[object.Labels[labelGate]]
	k.mu.Unlock()
	if g != nil {
		g.reach()
		select {
		case <-g.opened:
		case <-r.Context().Done():
			g.giveUp()
			return
		}
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if g != nil && g.name == refusing {
		review.Response.Allowed, review.Response.Result = false, &metav1.Status{Message: "no ConfigMap may pass"}
	}
	review.Request = nil
	_ = json.NewEncoder(w).Encode(review) // the API server may have gone
}

// gatedApp makes an app with one more ConfigMap, which a gate can hold; the name of
// the gate is that of the app.
func gatedApp(t testing.TB, configMaps int) string {
	t.Helper()
	app := world.CreateApp(t, configMaps)
	held := env.NewConfigMap(app, configMaps)
	held.Labels = map[string]string{labelGate: app}
	env.Create(t, world.Client, held)
	return app
}
