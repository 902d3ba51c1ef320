// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

func TestAddBackupLabels(t *testing.T) {
	for name, tc := range map[string]struct {
		backup string // the Backup in the cluster
		dryRun bool
		want   map[string]string
	}{
		"the Backup is here":  {backup: "nightly", want: map[string]string{"app": "mine", "tier": "gold"}},
		"another Backup":      {backup: "weekly", want: map[string]string{"app": "mine"}},
		"nothing was written": {backup: "nightly", dryRun: true, want: map[string]string{"app": "mine"}},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: tc.backup, Labels: map[string]string{"app": "mine"}}}
			b.Status.StorageLocation = "main"
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(b).Build()
			r := &Reconciler{Dependencies: lifecycle.Dependencies{Client: c, Reader: c, Now: time.Now}}
			o := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "again"}, Spec: v1alpha1.RestoreSpec{DryRun: tc.dryRun}}
			o.Status.BackupName, o.Status.StorageLocation = "nightly", "main"
			for range 2 { // This is repeated until the outcome is recorded.
				if err := r.addBackupLabels(t.Context(), &scope{Object: o}, map[string]string{"app": "theirs", "tier": "gold"}); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, b.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}
