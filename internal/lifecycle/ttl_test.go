// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/runner"
)

// TestDriver_DeleteAfter checks that a run is deleted when its TTL expires. If it ended by a
// clock that was ahead, the TTL counts within the life of the process.
func TestDriver_DeleteAfter(t *testing.T) {
	t.Parallel()
	const ttl = 24 * time.Hour
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		// ended is when the run ended, and after is when it is reconciled again.
		ended, after time.Duration
		want         bool
	}{
		"the TTL has not expired":                            {after: ttl - time.Second},
		"the TTL has expired":                                {after: ttl, want: true},
		"it ended a year ahead":                              {ended: 8760 * time.Hour, after: ttl, want: true},
		"it ended a year ahead, and the TTL has not expired": {ended: 8760 * time.Hour, after: ttl - time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "grapnel-system", Name: "backup-1", UID: "uid-1"}}
			b.Status.CompletionTimestamp = new(metav1.NewTime(start.Add(tc.ended)))
			d := driverWith(t, nil)
			d.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(b).Build()
			d.queue, d.steps = newQueue(1, func(types.NamespacedName) {}), runner.New[any](func(types.NamespacedName) {})
			for _, at := range []time.Duration{0, tc.after} {
				d.Now = func() time.Time { return start.Add(at) }
				if _, err := d.DeleteAfter(t.Context(), b.DeepCopy(), ttl); err != nil {
					t.Fatal(err)
				}
			}
			if gone := apierrors.IsNotFound(d.Client.Get(t.Context(), client.ObjectKeyFromObject(b), b)); gone != tc.want {
				t.Errorf("removed: %t, want %t", gone, tc.want)
			}
		})
	}
}
