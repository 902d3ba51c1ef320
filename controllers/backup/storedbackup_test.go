// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/tombstone"
)

// TestRecordStoredBackup records a stored backup, and fails nothing if that is not possible.
func TestRecordStoredBackup(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&v1alpha1.BackupStorageLocation{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "l-1"}},
		&v1alpha1.BackupStorageLocation{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "taken", UID: "l-2"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: tombstone.ConfigMapName("taken")}}, // not created by the operator
	).Build()
	r := &Reconciler{Dependencies: lifecycle.Dependencies{Client: c, Reader: c}}
	for _, location := range []string{"main", "taken"} {
		b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "nightly", UID: "u-1"}}
		b.Status.StorageLocation = location
		r.recordStoredBackup(t.Context(), b)
		r.recordStoredBackup(t.Context(), b)
	}
	noted, err := tombstone.LoadRecords(t.Context(), c, "ns", "main")
	if want := (tombstone.Records{"nightly": "u-1"}); err != nil || !maps.Equal(noted, want) || !noted.IsCreatedHere("nightly", "u-1") {
		t.Errorf("recorded: %v, %v, want %v", noted, err, want)
	}
}
