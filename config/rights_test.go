// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// testRights asks what the operator may do with objects that are not Grapnel's:
// read all of them, because anything may be selected, and nothing else.
func (s *suite) testRights(t *testing.T) {
	ctx := t.Context()
	for _, kind := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "Secret"},
		{Version: "v1", Kind: "Namespace"},
		{Group: "batch", Version: "v1", Kind: "CronJob"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		if err := s.operator.List(ctx, list); err != nil {
			t.Errorf("reading every %s: %v", kind.Kind, err)
		}
	}
	meta := metav1.ObjectMeta{Namespace: "default", Name: "not-grapnels"}
	secret := create(t, s.admin, &corev1.Secret{ObjectMeta: meta})
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "more-rights"}}
	for what, err := range map[string]error{
		"create a role":      s.operator.Create(ctx, role, client.DryRunAll),
		"create a Secret":    s.operator.Create(ctx, &corev1.Secret{ObjectMeta: meta}, client.DryRunAll),
		"change a Secret":    s.operator.Patch(ctx, secret.DeepCopy(), patch(t, "metadata", "labels", map[string]string{"a": "b"}), client.DryRunAll),
		"delete a Secret":    s.operator.Delete(ctx, secret, client.DryRunAll),
		"create a Plugin":    s.operator.Create(ctx, plugin("mine"), client.DryRunAll),
		"create a Backup":    s.operator.Create(ctx, &v1alpha1.Backup{ObjectMeta: meta}, client.DryRunAll),
		"create a namespace": s.operator.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, client.DryRunAll),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: want Forbidden, got %v", what, err)
		}
	}
}
