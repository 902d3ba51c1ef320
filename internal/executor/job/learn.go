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

// learn makes values that the container gets known to the redactor: those from Secrets, and
// those whose names say that they are one. Its error is one of read, which returns nil for a
// Secret that is not known.
func (a *attempt) learn(
	ctx context.Context, env []corev1.EnvVar, read func(ctx context.Context, name string) (*corev1.Secret, error),
) error {
	secrets := map[string]*corev1.Secret{}
	for _, v := range env {
		if v.ValueFrom == nil || v.ValueFrom.SecretKeyRef == nil {
			if !strings.HasPrefix(v.Name, prefix) && a.Redactor.IsSensitive(v.Name) {
				a.Redactor.AddValues(v.Value)
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
			a.Redactor.AddValues(string(secret.Data[ref.Key]))
		}
	}
	return nil
}

// learnAgain is learn for a Job whose container has started: its node may have waited for a
// Secret, and its Plugin may have been changed since. Nothing that comes from the container may
// be shown before it returned nil. Its error is that of ctx.
func (a *attempt) learnAgain(ctx context.Context) error {
	for i := range a.job.Spec.Template.Spec.Containers {
		if c := &a.job.Spec.Template.Spec.Containers[i]; c.Name == container {
			if err := a.learn(ctx, c.Env, a.mustRead); err != nil {
				return err
			}
		}
	}
	a.learned = true
	return nil
}

// mayRead reads a Secret before there is a Job. That it may not be read is no obstacle: it is
// read again.
func (a *attempt) mayRead(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := a.cluster.secret(ctx, name)
	if denied(err) {
		return nil, nil
	}
	return secret, err
}

// mustRead reads a Secret until that is done, or turns out to be useless.
func (a *attempt) mustRead(ctx context.Context, name string) (secret *corev1.Secret, err error) {
	err = a.until(ctx, nil, func(ctx context.Context) (_ time.Duration, done bool, err error) {
		if secret, err = a.cluster.secret(ctx, name); err != nil {
			return 0, false, doing("a Secret of its variables could not be read", err)
		}
		return 0, true, nil
	})
	if err != nil && ctx.Err() == nil {
		a.log.Info("A Secret cannot be read, so that its values will not be hidden in the log", "secret", name,
			"error", executor.OneLine(a.Redactor.String(refused(err).text)))
		return nil, nil
	}
	return secret, err
}
