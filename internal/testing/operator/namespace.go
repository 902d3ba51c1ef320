// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Namespace is the default namespace of the operator.
const Namespace = "grapnel-system"

// CreateNamespace creates the operator's namespace if it does not exist. The control plane
// installs the CRDs; RBAC is not needed because the operator runs as administrator.
func CreateNamespace(ctx context.Context, c client.Client) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if err := client.IgnoreAlreadyExists(c.Create(ctx, namespace)); err != nil {
		return fmt.Errorf("creating the operator's namespace: %w", err)
	}
	return nil
}
