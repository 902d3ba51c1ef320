// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/restore/modifier"
)

// loadResourceModifiers returns the rules in the ConfigMap that a Restore refers to, nil if it
// refers to none, or everything that is wrong with them. It reads past the cache, because the
// ConfigMap may be created right before the Restore.
func (r *Reconciler) loadResourceModifiers(ctx context.Context, namespace string, ref *v1alpha1.ConfigMapReference) (*modifier.Rules, []string, error) {
	if ref == nil {
		return nil, nil, nil
	}
	where := fmt.Sprintf("spec.resourceModifier: ConfigMap %s", ref.Name)
	var config corev1.ConfigMap
	switch err := r.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ref.Name}, &config); {
	case apierrors.IsNotFound(err):
		return nil, []string{fmt.Sprintf("%s does not exist in namespace %s; create it, and then a new Restore", where, namespace)}, nil
	case err != nil:
		return nil, nil, fmt.Errorf("reading ConfigMap %s: %w", ref.Name, err)
	}
	rules, errs := modifier.Parse(config.Data)
	return rules, prefixErrors(where, errs), nil
}
