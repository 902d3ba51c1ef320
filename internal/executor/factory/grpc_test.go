// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package factory_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
)

func endpointOf(address string, tls *v1alpha1.TLSClient) *v1alpha1.Plugin {
	return pluginOf(v1alpha1.Executor{GRPC: &v1alpha1.GRPCExecutor{
		Address: address, TLS: tls, ConnectTimeout: &metav1.Duration{Duration: time.Minute},
	}})
}

func TestEndpoint_UnixSocket(t *testing.T) {
	t.Parallel()
	got := newWorld(t).Endpoint(endpointOf("unix:///run/p.sock", nil))
	if got.Address != "unix:///run/p.sock" || got.ConnectTimeout != time.Minute || got.Credentials != nil || got.Digest != "" {
		t.Errorf("got %+v", got)
	}
}

// TestEndpoint_Credentials: credentials are read for each connection, in the operator's namespace.
func TestEndpoint_Credentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t, secret(operatorNamespace, "mover", map[string]string{"tls.crt": "c1", "tls.key": "k1"}), secret("shop", "mover", nil))
	trust := &v1alpha1.TLSClient{CABundle: []byte("ca"), ServerName: "mover.example", CertificateSecret: &v1alpha1.SecretReference{Name: "mover"}}
	spec := w.Endpoint(endpointOf("mover:9443", trust))
	want := func(certificate, key string) {
		t.Helper()
		got, err := spec.Credentials(t.Context())
		expected := host.TLS{CABundle: []byte("ca"), ServerName: "mover.example", Certificate: []byte(certificate), Key: []byte(key)}
		if diff := cmp.Diff(expected, got); diff != "" || err != nil {
			t.Errorf("error is %v, credentials (-want +got):\n%s", err, diff)
		}
	}
	fails := func(part string) {
		t.Helper()
		if _, err := spec.Credentials(t.Context()); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error is %v, want one with %q", err, part)
		}
	}
	update := func(data map[string]string) {
		t.Helper()
		if err := w.client.Update(t.Context(), secret(operatorNamespace, "mover", data)); err != nil {
			t.Fatal(err)
		}
	}
	want("c1", "k1")
	update(map[string]string{"tls.crt": "c2", "tls.key": "k2"})
	want("c2", "k2")
	update(map[string]string{"tls.crt": "c2"})
	fails("the Secret mover in namespace grapnel-system has no key tls.key")
	update(map[string]string{"tls.key": "k2"})
	fails("the Secret mover in namespace grapnel-system has no key tls.crt")
	w.onGet = func(client.Object) error { return apierrors.NewInternalError(errRefused) }
	fails("reading Secret mover: ")
	w.onGet = nil
	if err := w.client.Delete(t.Context(), secret(operatorNamespace, "mover", nil)); err != nil {
		t.Fatal(err)
	}
	fails("there is no Secret mover in namespace grapnel-system")
}

// TestEndpoint_Digest: the digest changes with the trusted peers, which recreates connections.
func TestEndpoint_Digest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	digests := map[string]bool{}
	for _, trust := range []v1alpha1.TLSClient{
		{}, {CABundle: []byte("ca")}, {ServerName: "a"}, {CertificateSecret: &v1alpha1.SecretReference{Name: "a"}}, {ServerName: "a"},
	} {
		spec := w.Endpoint(endpointOf("mover:9443", &trust))
		if spec.Credentials == nil {
			t.Errorf("%+v: no credentials", trust)
		}
		digests[spec.Digest] = true
	}
	if len(digests) != 4 || digests[""] {
		t.Errorf("the digests are %v", digests)
	}
}
