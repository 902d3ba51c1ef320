// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/operation"
)

// TestCompactForCache: only managedFields change.
func TestCompactForCache(t *testing.T) {
	t.Parallel()
	full := begun(func(op *v1alpha1.AsyncOperation) {
		op.Labels = map[string]string{v1alpha1.LabelParentUID: "u1", "other": "x"}
		op.Finalizers = []string{v1alpha1.FinalizerAsyncOperation}
		op.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Backup", Name: "nightly", UID: "u1"}}
		op.Status.Progress = &v1alpha1.AsyncOperationProgress{Completed: 1, Total: 2, Units: "bytes", Description: "copying"}
		op.Status.Conditions = []metav1.Condition{{Type: "Succeeded", Status: "Unknown", Reason: "Running", Message: "on its way"}}
	})
	for name, object := range map[string]runtime.Object{
		"with everything": full, "with nothing": &v1alpha1.AsyncOperation{}, "another kind": &corev1.ConfigMap{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := object.DeepCopyObject()
			if op, ok := object.(*v1alpha1.AsyncOperation); ok {
				op.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Time: &metav1.Time{Time: time.Unix(1, 0)}}}
			}
			got, err := operation.CompactForCache(object)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, got); diff != "" {
				t.Errorf("compact (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCompactForCache_SharedStrings: operations that were decoded separately share their strings.
func TestCompactForCache_SharedStrings(t *testing.T) {
	t.Parallel()
	decoded := func() *v1alpha1.AsyncOperation {
		op := &v1alpha1.AsyncOperation{}
		op.Spec.ActionName = string([]byte("example.io/copy"))
		op.Spec.PostOperationItems = []v1alpha1.OperationItem{{Resource: string([]byte("volumesnapshots"))}}
		_, err := operation.CompactForCache(op)
		if err != nil {
			t.Fatal(err)
		}
		return op
	}
	first, second := decoded(), decoded()
	if unsafe.StringData(first.Spec.ActionName) != unsafe.StringData(second.Spec.ActionName) {
		t.Error("the name of the action is in memory twice")
	}
	if unsafe.StringData(first.Spec.PostOperationItems[0].Resource) != unsafe.StringData(second.Spec.PostOperationItems[0].Resource) {
		t.Error("the resource of an item is in memory twice")
	}
}
