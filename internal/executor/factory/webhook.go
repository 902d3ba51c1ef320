// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package factory

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/webhook"
)

// newWebhookExecutor returns the executor that sends a request for an action.
func (b *Builder) newWebhookExecutor(a action) (executor.Executor, error) {
	from := a.plugin.Spec.Executor.Webhook
	options := webhook.Options{
		URL: from.URL, Path: a.Path, AllowCIDRs: from.AllowCIDRs, Redactor: b.Redactor, Logger: b.Logger,
	}
	if from.TLS != nil {
		options.CABundle, options.ServerName = from.TLS.CABundle, from.TLS.ServerName
	}
	if from.TokenSecret != nil || (from.TLS != nil && from.TLS.CertificateSecret != nil) {
		options.Credentials = func(ctx context.Context) (webhook.Credentials, error) { return b.readWebhookCredentials(ctx, from) }
	}
	return webhook.New(options)
}

// readWebhookCredentials reads the Secrets of a webhook. It is called for each call of an action.
func (b *Builder) readWebhookCredentials(ctx context.Context, from *v1alpha1.WebhookExecutor) (c webhook.Credentials, err error) {
	if ref := from.TokenSecret; ref != nil {
		token, err := b.readSecretKey(ctx, ref.Name, ref.Key)
		if err != nil {
			return c, err
		}
		c.BearerToken = string(token)
	}
	if from.TLS == nil || from.TLS.CertificateSecret == nil {
		return c, nil
	}
	name := from.TLS.CertificateSecret.Name
	if c.ClientCertificate, err = b.readSecretKey(ctx, name, corev1.TLSCertKey); err != nil {
		return c, err
	}
	c.ClientKey, err = b.readSecretKey(ctx, name, corev1.TLSPrivateKeyKey)
	return c, err
}

// readSecretKey reads a key of a Secret.
func (b *Builder) readSecretKey(ctx context.Context, name, key string) ([]byte, error) {
	secret, err := b.getSecret(ctx, name)
	if err != nil {
		return nil, err
	}
	return secretValue(secret, key)
}
