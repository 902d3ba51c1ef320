// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// testBackups has others create and change Backups with the annotations by which the operator
// knows its own.
func (s *suite) testBackups(t *testing.T) {
	ctx := t.Context()
	annotated := func(key string) *v1alpha1.Backup {
		return &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, GenerateName: "annotated-", Annotations: map[string]string{key: "2026-01-02T03:00:00Z", "example.io/a": "b"},
		}}
	}
	for _, key := range []string{v1alpha1.AnnotationScheduledTime, v1alpha1.AnnotationRunRequestedAt, v1alpha1.AnnotationDeletedBy, v1alpha1.AnnotationImportedBy} {
		t.Run(key, func(t *testing.T) {
			if err := s.user.Create(ctx, annotated(key)); !apierrors.IsForbidden(err) {
				t.Errorf("want it to be refused, got %v", err)
			}
			plain := create(t, s.user, annotated("example.io/mine"))
			if err := s.user.Patch(ctx, plain, patch(t, "metadata", "annotations", map[string]string{key: "x"})); !apierrors.IsForbidden(err) {
				t.Errorf("want it to be refused afterwards, got %v", err)
			}
			made := create(t, s.operator, annotated(key))
			if err := s.user.Patch(ctx, made, patch(t, "metadata", "annotations", map[string]string{"example.io/a": "c"})); err != nil {
				t.Errorf("changing another annotation failed: %v", err)
			}
			if err := s.user.Patch(ctx, made, patch(t, "metadata", "annotations", map[string]string{key: "2027-01-02T03:00:00Z"})); !apierrors.IsForbidden(err) {
				t.Errorf("want a change to be refused, got %v", err)
			}
			if err := s.user.Patch(ctx, made, patch(t, "metadata", "annotations", map[string]any{key: nil})); err != nil {
				t.Errorf("removing the annotation failed: %v", err)
			}
		})
	}
}
