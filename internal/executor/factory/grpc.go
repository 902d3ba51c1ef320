// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package factory

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
)

// Endpoint returns the endpoint of a Plugin with the executor grpc. Its Secret is read for
// every connection.
func (b *Builder) Endpoint(plugin *v1alpha1.Plugin) *catalog.EndpointSpec {
	from := plugin.Spec.Executor.GRPC
	spec := &catalog.EndpointSpec{Address: from.Address}
	if from.ConnectTimeout != nil {
		spec.ConnectTimeout = from.ConnectTimeout.Duration
	}
	if trust := from.TLS; trust != nil {
		spec.Digest = jsonDigest(trust)
		spec.Credentials = func(ctx context.Context) (host.TLS, error) { return b.readEndpointTLS(ctx, trust) }
	}
	return spec
}

func (b *Builder) readEndpointTLS(ctx context.Context, from *v1alpha1.TLSClient) (host.TLS, error) {
	credentials := host.TLS{CABundle: from.CABundle, ServerName: from.ServerName}
	if from.CertificateSecret == nil {
		return credentials, nil
	}
	secret, err := b.getSecret(ctx, from.CertificateSecret.Name)
	if err != nil {
		return credentials, err
	}
	if credentials.Certificate, err = secretValue(secret, corev1.TLSCertKey); err != nil {
		return credentials, fmt.Errorf("the certificate: %w", err)
	}
	credentials.Key, err = secretValue(secret, corev1.TLSPrivateKeyKey)
	return credentials, err
}
