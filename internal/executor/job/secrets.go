// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// registerSecretValues adds the secret values of the container to the redactor: values from
// Secrets, and those of variables whose names indicate a secret. Its error is one of read, which
// returns nil for an unknown Secret.
func (a *attempt) registerSecretValues(
	ctx context.Context, env []corev1.EnvVar, read func(ctx context.Context, name string) (*corev1.Secret, error),
) error {
	secrets := map[string]*corev1.Secret{}
	for _, v := range env {
		if v.ValueFrom == nil || v.ValueFrom.SecretKeyRef == nil {
			if !strings.HasPrefix(v.Name, envPrefix) && a.Redactor.IsSensitive(v.Name) {
				a.Redactor.AddRecentValues(v.Value)
			}
			continue
		}
		ref := v.ValueFrom.SecretKeyRef
		secret, known := secrets[ref.Name]
		if !known {
			var err error
			if secret, err = read(ctx, ref.Name); err != nil {
				return err
			}
			secrets[ref.Name] = secret
		}
		if secret != nil {
			a.Redactor.AddRecentValues(string(secret.Data[ref.Key]))
		}
	}
	return nil
}

// registerContainerSecretValues is registerSecretValues for a Job whose container has started: its
// node may have waited for a Secret, and its Plugin may have changed since. Nothing from the
// container may be shown before it has returned nil. Its error is that of ctx.
func (a *attempt) registerContainerSecretValues(ctx context.Context) error {
	for i := range a.job.Spec.Template.Spec.Containers {
		if c := &a.job.Spec.Template.Spec.Containers[i]; c.Name == containerName {
			if err := a.registerSecretValues(ctx, c.Env, a.readSecretWithRetry); err != nil {
				return err
			}
		}
	}
	a.secretsRegistered = true
	return nil
}

// readSecretIfAllowed reads a Secret before a Job exists. A denied read is not an error: the Secret
// is read again later.
func (a *attempt) readSecretIfAllowed(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := a.cluster.getSecret(ctx, name)
	if isAccessDenied(err) {
		return nil, nil
	}
	return secret, err
}

// readSecretWithRetry reads a Secret until it succeeds, or a retry is useless.
func (a *attempt) readSecretWithRetry(ctx context.Context, name string) (secret *corev1.Secret, err error) {
	err = a.pollUntilDone(ctx, nil, func(ctx context.Context) (_ time.Duration, done bool, err error) {
		if secret, err = a.cluster.getSecret(ctx, name); err != nil {
			return 0, false, newRequestFailure("a Secret of its variables could not be read", err)
		}
		return 0, true, nil
	})
	if err != nil && ctx.Err() == nil {
		a.log.Info("A Secret cannot be read; its values will not be redacted in the log", "secret", name,
			"error", executor.OneLine(a.Redactor.String(toFailure(err).text)))
		return nil, nil
	}
	return secret, err
}
