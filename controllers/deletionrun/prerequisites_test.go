// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletionrun

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// TestAwaitRestores checks that Restores are read from the API server only if the cache shows
// none.
func TestAwaitRestores(t *testing.T) {
	t.Parallel()
	// A fake client changes the objects that it is created with.
	open := func() []client.Object {
		return []client.Object{&v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "back"}, Spec: v1alpha1.RestoreSpec{BackupName: "nightly"}}}
	}
	for name, tc := range map[string]struct {
		cached, live []client.Object
		wantReady    bool
		wantLists    int
	}{
		"none":                             {wantReady: true, wantLists: 1},
		"one that the cache shows":         {cached: open(), live: open()},
		"one that the cache does not show": {live: open(), wantLists: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			lists := 0
			reader := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.live...).Build(), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					lists++
					return c.List(ctx, list, opts...)
				},
			})
			cache := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.cached...).Build()
			r := &Reconciler{Dependencies: lifecycle.Dependencies{Client: cache, Reader: reader}}
			d := &v1alpha1.DeletionRun{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "away"}}
			d.Status.BackupName = "nightly"
			ready, err := r.awaitRestores(t.Context(), &scope{Object: d})
			if err != nil || ready != tc.wantReady || lists != tc.wantLists {
				t.Errorf("ready: %t after %d lists, want %t after %d; error %v", ready, lists, tc.wantReady, tc.wantLists, err)
			}
		})
	}
}
