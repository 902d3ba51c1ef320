// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"sync"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// sent is one request that an endpoint got.
type sent struct {
	host, uri string
	header    http.Header
	body      struct {
		Action, Key string
		Parameters  map[string]string
		Subject     v1alpha1.Backup
	}
}

// endpoint answers webhooks, and remembers what it was sent.
type endpoint struct {
	*httptest.Server
	mu  sync.Mutex
	got []sent
}

func newEndpoint(t testing.TB) *endpoint {
	t.Helper()
	e := &endpoint{}
	e.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := sent{host: r.Host, uri: r.Method + " " + r.RequestURI, header: r.Header}
		content, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(content, &in.body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		e.mu.Lock()
		e.got = append(e.got, in)
		e.mu.Unlock()
		_, _ = io.WriteString(w, `{"message":"heard"}`) // who called notices
	}))
	t.Cleanup(e.Close)
	return e
}

// newHook installs a Plugin whose PreBackup action is a request to a path of an endpoint, with
// a token.
func newHook(t testing.TB, s site, server *endpoint) (action string) {
	t.Helper()
	action = own(t, "tell")
	token := env.Create(t, world.Client, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "token-"}, StringData: map[string]string{"token": "k-123456"},
	})
	plugin := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: path.Base(action)}}
	plugin.Spec.Executor.Webhook = &v1alpha1.WebhookExecutor{
		URL: server.URL + "/hooks", AllowCIDRs: []string{"127.0.0.0/8"},
		TLS:         &v1alpha1.TLSClient{CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
		TokenSecret: &v1alpha1.SecretKeyReference{Name: token.Name, Key: "token"},
	}
	plugin.Spec.Actions = pre(v1alpha1.PluginAction{Name: action, Path: "/freeze"})
	install(t, plugin)
	return action
}

var _ = Describe("The rights of authors: webhooks", Label("security"), func() {
	// A user who may create Backups passes what might become a path, a host or a header.
	It("does not let parameters reach the request line or headers", func() {
		t := suite.Spec(GinkgoTB())
		s, jane, _ := meet(t)
		server := newEndpoint(t)
		action := newHook(t, s, server)
		b := s.NewBackup(world.CreateApp(t, 1))
		b.GenerateName = "admin.delete.all-"
		b.Labels = env.LabelsForActions(action)
		b.Annotations = map[string]string{"note": "x\r\nX-Evil: 1\r\n\r\nGET /admin HTTP/1.1"}
		parameters := map[string]string{
			"url": "https://evil.example.com", "path": "/../../admin?x=1", "Host": "evil.example.com", "Authorization": "Bearer mine",
			"X-Evil": "1\r\nX-Evil: 2", "a\r\nX-Evil": "1", "zero": "a\x00b", "json": `"},"action":"other","x":{"`, "template": "{{.Token}} ${token}",
		}
		for key, value := range parameters {
			if b.Spec.Parameters == nil {
				b.Spec.Parameters = map[string]v1alpha1.ParameterSet{action: {}}
			}
			b.Spec.Parameters[action][key] = v1alpha1.ParameterValue(value)
		}
		b = outcome(t, s.applyBy(t, jane, b), v1alpha1.RunPhaseCompleted)
		run := runOf(t, b, v1alpha1.HookPreBackup, action)

		if len(server.got) != 1 {
			t.Fatalf("there were %d requests", len(server.got))
		}
		server.got[0].check(t, server, action, string(run.UID))
		if got := server.got[0].body; got.Subject.UID != b.UID || !maps.Equal(got.Parameters, parameters) {
			t.Errorf("it was sent for Backup %s, with %q", got.Subject.UID, got.Parameters)
		}
	})
})

// check checks that a request is one of newHook, and nothing else.
func (got *sent) check(t testing.TB, server *endpoint, action, key string) {
	t.Helper()
	if got.host != server.Listener.Addr().String() || got.uri != "POST /hooks/freeze" {
		t.Errorf("it was sent to %s as %s", got.host, got.uri)
	}
	env.CheckEqual(t, "headers", slices.Sorted(maps.Keys(got.header)), []string{
		"Accept", "Authorization", "Connection", "Content-Length", "Content-Type", "Grapnel-Attempt", "Idempotency-Key", "User-Agent",
	})
	for name, want := range map[string]string{"Authorization": "Bearer k-123456", "Idempotency-Key": key, "Grapnel-Attempt": "1"} {
		env.CheckEqual(t, name, got.header[name], []string{want})
	}
	if got.body.Action != action || got.body.Key != key {
		t.Errorf("it was sent for %s with the key %s", got.body.Action, got.body.Key)
	}
}
