// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"context"
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
// read all of them, because anything may be selected, and write all of them,
// because anything may be restored.
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
	label := patch(t, "metadata", "labels", map[string]string{"a": "b"})
	for what, err := range map[string]error{
		"create a namespace": s.operator.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, client.DryRunAll),
		"create a ConfigMap": s.operator.Create(ctx, &corev1.ConfigMap{ObjectMeta: meta}, client.DryRunAll),
		"change a Secret":    s.operator.Patch(ctx, secret.DeepCopy(), label, client.DryRunAll),
		"delete a Secret":    s.operator.Delete(ctx, secret, client.DryRunAll),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.operator.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace("default"), client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("delete all Secrets at once: want Forbidden, got %v", err)
	}
}

// testRoles restores rights that the operator does not hold itself: the API server
// lets no user grant more than they have, unless they may escalate and bind.
func (s *suite) testRoles(t *testing.T) {
	ctx := t.Context()
	meta := metav1.ObjectMeta{Namespace: "default", Name: "restored"}
	cluster := metav1.ObjectMeta{Name: "restored"}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	beyond := append([]rbacv1.PolicyRule{
		{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}},
		{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}},
	}, rules...)
	all := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}
	jane := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "jane"}}
	existing := create(t, s.admin, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "existing"}})
	existing.Rules = rules
	for what, err := range map[string]error{
		"create a Role":               s.operator.Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, client.DryRunAll),
		"create a ClusterRole":        s.operator.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: cluster, Rules: beyond}, client.DryRunAll),
		"widen a Role":                s.operator.Update(ctx, existing, client.DryRunAll),
		"create a RoleBinding":        s.operator.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: all, Subjects: jane}, client.DryRunAll),
		"create a ClusterRoleBinding": s.operator.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: cluster, RoleRef: all, Subjects: jane}, client.DryRunAll),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// testOutsiders checks what a user may do who has all of the operator's
// namespace, by Kubernetes' own role, and nothing of Grapnel.
// Anyone who may create one of these kinds has the operator's rights through it.
func (s *suite) testOutsiders(t *testing.T) {
	outsider := s.as(t, "joe")
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "by-joe"}
	create(t, s.admin, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "joe"}},
	})
	eventually(t, "joe's rights", func(ctx context.Context) (bool, error) {
		return outsider.Create(ctx, &corev1.ConfigMap{ObjectMeta: meta}, client.DryRunAll) == nil, nil
	})
	for kind, object := range map[string]client.Object{
		"Backup":                &v1alpha1.Backup{ObjectMeta: meta},
		"Restore":               restore("by-joe"),
		"BackupStorageLocation": location("by-joe"),
		"Plugin":                plugin("by-joe"),
		"HookRun":               hookRun(namespace, "by-joe"),
		"AsyncOperation":        asyncOperation(namespace, "by-joe"),
		"DeletionRun":           deletionRun("by-joe"),
		"Schedule":              schedule("by-joe"),
		"DownloadRequest":       downloadRequest(v1alpha1.DownloadBackupLog),
		"BackupPreview":         &v1alpha1.BackupPreview{ObjectMeta: meta},
	} {
		if err := outsider.Create(t.Context(), object, client.DryRunAll); !apierrors.IsForbidden(err) {
			t.Errorf("create a %s: want Forbidden, got %v", kind, err)
		}
	}
	if err := s.user.Create(t.Context(), restore("by-jane"), client.DryRunAll); err != nil {
		t.Errorf("a user with rights on Grapnel's kinds can create a Restore: %v", err)
	}
}

func restore(name string) *v1alpha1.Restore {
	return &v1alpha1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.RestoreSpec{BackupName: "somewhat-older"},
	}
}

func deletionRun(name string) *v1alpha1.DeletionRun {
	return &v1alpha1.DeletionRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.DeletionRunSpec{BackupName: "somewhat-older"},
	}
}

func schedule(name string) *v1alpha1.Schedule {
	return &v1alpha1.Schedule{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.ScheduleSpec{Schedule: "@daily"},
	}
}
