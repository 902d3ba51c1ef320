// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

func asyncOperation(namespace, name string) *v1alpha1.AsyncOperation {
	return &v1alpha1.AsyncOperation{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.AsyncOperationSpec{
			ParentRef: v1alpha1.ParentReference{Kind: "Backup", Name: "b", UID: "u"},
			Kind:      v1alpha1.ActionKindAsyncBackupItem, ActionName: "example.io/copy", PluginRef: v1alpha1.PluginReference{Name: "copy"},
			OperationID: "job-1", Item: v1alpha1.OperationItem{Resource: "persistentvolumeclaims", Namespace: "shop", Name: "data"},
			Attempt: 1, Timeout: metav1.Duration{Duration: time.Hour}, PollInterval: metav1.Duration{Duration: time.Second},
			DesiredState: v1alpha1.DesiredStateRun,
		},
	}
}

// testOperationsOfOperator checks that the operator may do with an AsyncOperation what it needs to.
func (s *suite) testOperationsOfOperator(t *testing.T) {
	ctx := t.Context()
	op := asyncOperation(namespace, "worked-with")
	op.Finalizers = []string{v1alpha1.FinalizerAsyncOperation}
	create(t, s.operator, op)
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"cancel", func() error {
			change := []byte(`{"spec": {"desiredState": "Cancel", "cancelReason": "its object was shown again"}}`)
			return s.operator.Patch(ctx, op, client.RawPatch("application/merge-patch+json", change))
		}},
		{"write status", func() error { return s.operator.Status().Patch(ctx, op, patch(t, "status", "message", "x")) }},
		{"release", func() error { return s.operator.Patch(ctx, op, patch(t, "metadata", "finalizers", nil)) }},
		{"delete", func() error { return s.operator.Delete(ctx, op) }},
	} {
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
	}
}

// testOperationsOfUser has what others may do with an AsyncOperation.
func (s *suite) testOperationsOfUser(t *testing.T) {
	ctx := t.Context()
	change := func(section, field string, value any) func(*v1alpha1.AsyncOperation) error {
		return func(op *v1alpha1.AsyncOperation) error { return s.user.Patch(ctx, op, patch(t, section, field, value)) }
	}
	for name, tc := range map[string]struct {
		edit  func(*v1alpha1.AsyncOperation)
		do    func(*v1alpha1.AsyncOperation) error
		allow bool
	}{
		"create": {do: func(*v1alpha1.AsyncOperation) error {
			return s.user.Create(ctx, asyncOperation(namespace, "by-a-user"))
		}},
		"cancel": {do: change("spec", "desiredState", "Cancel"), allow: true},
		"label":  {do: change("metadata", "labels", map[string]string{"seen-by": "jane"}), allow: true},
		"take a cancel back": {
			edit: func(op *v1alpha1.AsyncOperation) { op.Spec.DesiredState = v1alpha1.DesiredStateCancel },
			do:   change("spec", "desiredState", "Run"),
		},
		"say why in the operator's name": {do: change("spec", "cancelReason", "the Backup has failed")},
		"give more time":                 {do: change("spec", "timeout", "9h")},
		"ask about another operation":    {do: change("spec", "operationID", "job-2")},
		"hold":                           {do: change("metadata", "finalizers", []string{"example.com/mine"})},
		"release": {
			edit: func(op *v1alpha1.AsyncOperation) { op.Finalizers = []string{v1alpha1.FinalizerAsyncOperation} },
			do:   change("metadata", "finalizers", nil),
		},
		"disown": {do: change("metadata", "ownerReferences", []any{})},
		"delete": {do: func(op *v1alpha1.AsyncOperation) error { return s.user.Delete(ctx, op) }},
		"delete all": {do: func(*v1alpha1.AsyncOperation) error {
			return s.user.DeleteAllOf(ctx, &v1alpha1.AsyncOperation{}, client.InNamespace(namespace))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			op := asyncOperation(namespace, "")
			op.GenerateName = "by-others-"
			op.OwnerReferences = []metav1.OwnerReference{ownerReference(s.backup(t, namespace))}
			if tc.edit != nil {
				tc.edit(op)
			}
			create(t, s.admin, op)
			err := tc.do(op)
			if tc.allow && err != nil {
				t.Errorf("want it to be allowed, got %v", err)
			}
			// Some changes are rejected by the schema already, for all users.
			if !tc.allow && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
				t.Errorf("want it to be refused, got %v", err)
			}
		})
	}
}

func (s *suite) testOperationsAreCollected(t *testing.T) {
	backup := s.backup(t, namespace)
	op := asyncOperation(namespace, "collected")
	op.OwnerReferences = []metav1.OwnerReference{ownerReference(backup)}
	create(t, s.operator, op)
	if err := s.user.Delete(t.Context(), backup, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	s.eventuallyGone(t, op)
	s.eventuallyGone(t, backup)
}
