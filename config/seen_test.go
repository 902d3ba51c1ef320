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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/tombstone"
)

// testSeenBackups lets a user who may write ConfigMaps claim that this cluster made the backups
// of another one.
func (s *suite) testSeenBackups(t *testing.T) {
	ctx := t.Context()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "writes-configmaps"}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: meta.Name}},
	}
	create(t, s.admin, role)
	create(t, s.admin, binding)
	writer := s.as(t, meta.Name)
	noted := func(name string, labels, data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, Data: data}
	}
	ours := map[string]string{tombstone.LabelLocation: "main"}
	eventually(t, "the policy", func(ctx context.Context) (bool, error) {
		return apierrors.IsForbidden(writer.Create(ctx, noted("forged-seen-backups", ours, nil), client.DryRunAll)), nil
	})
	plain := create(t, writer, noted("mine", nil, map[string]string{"nightly": "u-1"}))
	made := create(t, s.operator, noted("main-seen-backups", ours, map[string]string{"nightly": "u-1 found", "weekly": "u-2"}))
	for name, tc := range map[string]struct {
		object         *corev1.ConfigMap
		section, field string
		value          any
		allowed        bool
	}{
		"a key is added":               {object: made, section: "data", field: "forged", value: "u-3"},
		"a key is changed":             {object: made, section: "data", field: "nightly", value: "u-1"},
		"the label is removed":         {object: made, section: "metadata", field: "labels", value: map[string]any{tombstone.LabelLocation: nil}},
		"the label is changed":         {object: made, section: "metadata", field: "labels", value: map[string]any{tombstone.LabelLocation: "other"}},
		"the label is added to others": {object: plain, section: "metadata", field: "labels", value: map[string]any{tombstone.LabelLocation: "main"}},
		"another location is the owner": {object: made, section: "metadata", field: "ownerReferences", value: []map[string]any{{
			"apiVersion": "grapnel.dev/v1alpha1", "kind": "BackupStorageLocation", "name": "main", "uid": "u-9",
		}}},
		"a key is removed":         {object: made, section: "data", field: "weekly", allowed: true},
		"another ConfigMap is his": {object: plain, section: "data", field: "nightly", value: "u-2", allowed: true},
	} {
		t.Run(name, func(t *testing.T) {
			err := writer.Patch(ctx, tc.object.DeepCopy(), patch(t, tc.section, tc.field, tc.value), client.DryRunAll)
			if (tc.allowed && err != nil) || (!tc.allowed && !apierrors.IsForbidden(err)) {
				t.Errorf("allowed: %t, and the error is %v", tc.allowed, err)
			}
		})
	}
	if err := s.operator.Patch(ctx, made.DeepCopy(), patch(t, "data", "more", "u-3")); err != nil {
		t.Errorf("the operator cannot note a backup: %v", err)
	}
	if err := writer.Delete(ctx, made); err != nil {
		t.Errorf("it cannot be deleted: %v", err)
	}
}
