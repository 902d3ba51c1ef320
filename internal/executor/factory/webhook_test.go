// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package factory_test

import (
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
)

// hook is an endpoint that answers with the path and token of the request.
type hook struct {
	*httptest.Server
	of v1alpha1.Executor
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"message":"`+r.URL.Path+` `+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")+`."}`)
	}))
	h.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	h.StartTLS()
	t.Cleanup(h.Close)
	h.of = v1alpha1.Executor{Webhook: &v1alpha1.WebhookExecutor{
		URL: h.URL + "/hooks", AllowCIDRs: []string{"127.0.0.0/8", "::1/128"},
		TLS: &v1alpha1.TLSClient{CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})},
	}}
	return h
}

func TestNewWebhookExecutor_Paths(t *testing.T) {
	t.Parallel()
	w, h := newWorld(t), newHook(t)
	plugin := pluginOf(h.of, preBackup, postBackup)
	plugin.Spec.Actions[1].Path = "/thaw"
	for kind, want := range map[v1alpha1.ActionKind]string{preBackup: "/hooks .", postBackup: "/hooks/thaw ."} {
		answer, err := w.build(plugin, kind).Execute(t.Context(), callFor(strings.TrimSuffix(string(kind), "Action"), aBackup))
		if err != nil || answer.Message != want {
			t.Errorf("%s: got %+v, %v; want %q", kind, answer, err, want)
		}
	}
}

// TestNewWebhookExecutor_ServerName covers an address that the certificate is not valid for, and a name that
// it is not valid for.
func TestNewWebhookExecutor_ServerName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"": "", "example.com": "", "other.example": `not valid for "other.example"`} {
		w, h := newWorld(t), newHook(t)
		h.of.Webhook.TLS.ServerName = name
		_, err := w.build(pluginOf(h.of, preBackup), preBackup).Execute(t.Context(), callFor(executor.PointPreBackup, aBackup))
		if want != "" {
			wantError(t, err, executor.Unreachable, want)
		} else if err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestNewWebhookExecutor_TokenSecret: only Secrets in the operator's namespace are read.
func TestNewWebhookExecutor_TokenSecret(t *testing.T) {
	t.Parallel()
	const first, second = "first-token-of-all", "second-token-of-all"
	w := newWorld(t, secret(operatorNamespace, "hook", map[string]string{"token": first + "\n"}), secret("shop", "hook", map[string]string{"token": "another"}))
	h := newHook(t)
	h.of.Webhook.TokenSecret = &v1alpha1.SecretKeyReference{Name: "hook", Key: "token"}
	run := w.build(pluginOf(h.of, preBackup), preBackup)
	call := callFor(executor.PointPreBackup, aBackup)
	// The endpoint repeats the token, which is redacted.
	answer, err := run.Execute(t.Context(), call)
	if err != nil || !strings.Contains(answer.Message, "[REDACTED]") || strings.Contains(answer.Message, first) {
		t.Errorf("got %+v, %v", answer, err)
	}
	if err := w.client.Update(t.Context(), secret(operatorNamespace, "hook", map[string]string{"token": second})); err != nil {
		t.Fatal(err)
	}
	if answer, err = run.Execute(t.Context(), call); err != nil || strings.Contains(answer.Message, second) {
		t.Errorf("got %+v, %v", answer, err)
	}
	if err := w.client.Update(t.Context(), secret(operatorNamespace, "hook", map[string]string{"other": second})); err != nil {
		t.Fatal(err)
	}
	_, err = run.Execute(t.Context(), call)
	wantError(t, err, executor.Invalid, "its credentials could not be read: the Secret hook in namespace grapnel-system has no key token")
	if err := w.client.Update(t.Context(), secret(operatorNamespace, "hook", map[string]string{"token": "\n"})); err != nil {
		t.Fatal(err)
	}
	_, err = run.Execute(t.Context(), call)
	wantError(t, err, executor.Invalid, "its credentials could not be read: the key token of the Secret hook in namespace grapnel-system is empty")
	if err := w.client.Delete(t.Context(), secret(operatorNamespace, "hook", nil)); err != nil {
		t.Fatal(err)
	}
	_, err = run.Execute(t.Context(), call)
	wantError(t, err, executor.Invalid, "its credentials could not be read: there is no Secret hook in namespace grapnel-system")
	w.onGet = func(client.Object) error { return apierrors.NewInternalError(errRefused) }
	_, err = run.Execute(t.Context(), call)
	wantError(t, err, executor.Unreachable, "its credentials could not be read: reading Secret hook")
}

func TestNewWebhookExecutor_InvalidCertificate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		data map[string]string
		want string
	}{
		"no certificate": {map[string]string{"tls.key": "x"}, "the Secret hook in namespace grapnel-system has no key tls.crt"},
		"no key":         {map[string]string{"tls.crt": "x"}, "the Secret hook in namespace grapnel-system has no key tls.key"},
		"both empty":     {map[string]string{"tls.crt": "", "tls.key": ""}, "the key tls.crt of the Secret hook in namespace grapnel-system is empty"},
		"no pair":        {map[string]string{"tls.crt": "x", "tls.key": "y"}, "the client certificate and its key are not a pair in PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, h := newWorld(t, secret(operatorNamespace, "hook", tc.data)), newHook(t)
			h.of.Webhook.TLS.CertificateSecret = &v1alpha1.SecretReference{Name: "hook"}
			_, err := w.build(pluginOf(h.of, preBackup), preBackup).Execute(t.Context(), callFor(executor.PointPreBackup, aBackup))
			wantError(t, err, executor.Invalid, tc.want)
		})
	}
}
